//! What the programs of a control plane are given: arguments, tokens, kubeconfigs.

use std::path::Path;

/// Users by name: token, name, groups. The arbiter has the name of its service account, so that its role applies.
pub(super) const USERS: [(&str, &str, &str); 3] = [
    ("admin", "admin", "system:masters"),
    ("kueue", "system:serviceaccount:kueue-system:kueue-controller-manager", "system:masters"),
    (
        "arbiter",
        "system:serviceaccount:sluice-system:sluice-arbiter",
        "system:serviceaccounts,system:authenticated",
    ),
];

/// Writes what is the same for all starts.
pub(super) fn write(root: &Path) {
    let line = |(token, name, groups): &(&str, &str, &str)| {
        format!("{token}-token,{name},{token},\"{groups}\"\n")
    };
    let tokens: String = USERS.iter().map(line).collect();
    std::fs::write(root.join("tokens.csv"), tokens).unwrap();
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\n\
                  rules:\n- level: Metadata\n  users: [\"system:serviceaccount:sluice-system:sluice-arbiter\"]\n- level: None\n";
    std::fs::write(root.join("audit-policy.yaml"), policy).unwrap();
}

/// A kubeconfig for `user`.
pub(super) fn kubeconfig(root: &Path, port: u16, user: &str) -> String {
    let authority = root.join("ca.crt");
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
         clusters:\n- name: test\n  cluster:\n    server: https://127.0.0.1:{port}\n    certificate-authority: {}\n\
         users:\n- name: test\n  user:\n    token: {user}-token\n\
         contexts:\n- name: test\n  context: {{cluster: test, user: test}}\n",
        authority.display()
    )
}

/// etcd without waiting for the disk: nothing of it outlives the test.
pub(super) fn etcd_arguments(data: &Path, port: u16, peer_port: u16) -> Vec<String> {
    let (client, peer) =
        (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    vec![
        format!("--data-dir={}", data.display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=error".to_owned(),
    ]
}

/// An API server with roles and an audit log.
pub(super) fn api_server_arguments(root: &Path, port: u16, etcd_port: u16) -> Vec<String> {
    let file = |flag: &str, name: &str| format!("--{flag}={}", root.join(name).display());
    vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        file("tls-cert-file", "tls.crt"),
        file("tls-private-key-file", "tls.key"),
        file("service-account-key-file", "sa.key"),
        file("service-account-signing-key-file", "sa.key"),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        file("token-auth-file", "tokens.csv"),
        "--authorization-mode=RBAC".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        // Nobody makes service accounts' tokens for pods here, and nobody listens for the service.
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        file("audit-policy-file", "audit-policy.yaml"),
        file("audit-log-path", "audit.log"),
        "--v=1".to_owned(),
    ]
}
