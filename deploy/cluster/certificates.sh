#!/bin/sh
# Makes the secret, the CA and the certificate that the nodes of a cluster share, in
# the folder at hand: certificates.sh NAME…, with the names and addresses of all nodes
# as their peers have them. Keep cluster-ca.key elsewhere.
set -eu
[ $# -gt 0 ] || { echo "usage: certificates.sh NAME…" >&2; exit 2; }
names=
for name; do
	case $name in *[!0-9.]*) names=$names,DNS:$name ;; *) names=$names,IP:$name ;; esac
done
umask 077
openssl rand -hex 32 > cluster.secret
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=streamwright cluster CA" \
	-addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign -keyout cluster-ca.key -out cluster-ca.pem
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=node" -addext basicConstraints=critical,CA:FALSE \
	-addext "subjectAltName=${names#,}" -addext extendedKeyUsage=serverAuth,clientAuth -CA cluster-ca.pem -CAkey cluster-ca.key -keyout node.key -out node.pem
