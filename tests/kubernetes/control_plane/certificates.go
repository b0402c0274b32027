package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Kueue replaces certificates that are good for less than 90 days by its own, and an authority by any other name, too.
const lifetime = 365 * 24 * time.Hour

// The name of Kueue's webhooks in a cluster: it takes a certificate only if that is for this name.
const kueueWebhooks = "kueue-webhook-service.kueue-system.svc"

// writeCertificates makes an authority (ca.crt, ca.key), a certificate of it for servers on loopback (tls.crt, tls.key),
// and a key that signs tokens of service accounts (sa.key), in dir.
func writeCertificates(dir string) error {
	authority := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "kueue-ca", Organization: []string{"kueue"}},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(lifetime),
		DNSNames:              []string{"kueue-ca"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: kueueWebhooks},
		NotBefore:    authority.NotBefore,
		NotAfter:     authority.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost", kueueWebhooks},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	var keys [3]*rsa.PrivateKey
	for i := range keys {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			return err
		}
		keys[i] = key
	}
	certificates := []struct {
		name     string
		template *x509.Certificate
		key      *rsa.PrivateKey
	}{{"ca.crt", authority, keys[0]}, {"tls.crt", server, keys[1]}}
	for _, c := range certificates {
		der, err := x509.CreateCertificate(rand.Reader, c.template, authority, &c.key.PublicKey, keys[0])
		if err != nil {
			return err
		}
		if err := writePEM(filepath.Join(dir, c.name), "CERTIFICATE", der); err != nil {
			return err
		}
	}
	for name, key := range map[string]*rsa.PrivateKey{"ca.key": keys[0], "tls.key": keys[1], "sa.key": keys[2]} {
		der := x509.MarshalPKCS1PrivateKey(key)
		if err := writePEM(filepath.Join(dir, name), "RSA PRIVATE KEY", der); err != nil {
			return err
		}
	}
	return nil
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
