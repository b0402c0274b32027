// Command control-plane is a Kubernetes control plane in one program, for tests: what it is called by, or its first
// argument, says which part it is. One program instead of four is linked once and shares what they have in common.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	part := filepath.Base(os.Args[0])
	if part == "control-plane" && len(os.Args) > 1 {
		part = os.Args[1]
		os.Args = os.Args[1:]
	}
	switch part {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kubectl":
		os.Exit(cli.Run(kubectl.NewDefaultKubectlCommand()))
	case "jobs":
		end(runJobs(onlyArgument()))
	case "certificates":
		end(writeCertificates(onlyArgument()))
	default:
		fmt.Fprintf(os.Stderr, "%q is none of etcd, kube-apiserver, kubectl, jobs, certificates\n", part)
		os.Exit(64)
	}
}

func onlyArgument() string {
	if len(os.Args) != 2 {
		fmt.Fprintf(os.Stderr, "%s takes one argument\n", os.Args[0])
		os.Exit(64)
	}
	return os.Args[1]
}

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
