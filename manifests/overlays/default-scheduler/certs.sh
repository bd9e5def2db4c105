#!/usr/bin/env bash
# certs.sh - certificates for mutual TLS between kube-scheduler and milligpud's webhooks
#
#   ./certs.sh [FOLDER [ADDRESS]]      defaults: certs, 10.96.0.210; DAYS in the environment: validity (825)
#
# There are two CAs, because the holder of a certificate of the client CA can have pods bound with milligpud's rights;
# the server's certificate must not allow that. The keys of both CAs are deleted at the end, so that nobody can sign
# another certificate. To renew, run the script again and install all files again.
set -euo pipefail

case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
-*) echo "certs.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
folder=${1:-certs}
address=${2:-10.96.0.210}
name=milligpu.milligpu-system.svc
days=${DAYS:-825}

if [ -e "$folder" ]; then
    echo "certs.sh: $folder exists already; name another folder, or move it away first" >&2
    exit 1
fi
umask 077
mkdir -p "$folder"
cd "$folder"

authority() { # FILE SUBJECT
    openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"
    openssl req -x509 -new -sha256 -key "$1.key" -subj "/CN=$2" -days "$days" -out "$1.crt" \
        -addext 'basicConstraints=critical,CA:TRUE,pathlen:0' -addext 'keyUsage=critical,keyCertSign'
}

leaf() { # FILE SUBJECT AUTHORITY EXTENSIONS
    openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"
    openssl req -new -sha256 -key "$1.key" -subj "/CN=$2" -out "$1.csr"
    openssl x509 -req -sha256 -in "$1.csr" -CA "$3.crt" -CAkey "$3.key" -CAcreateserial -days "$days" \
        -extfile <(printf 'basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n%b' "$4") \
        -out "$1.crt" 2>/dev/null
    rm -f "$1.csr"
}

authority server-ca 'milligpu webhook servers'
authority client-ca 'milligpu webhook clients'
leaf tls "$name" server-ca "extendedKeyUsage=serverAuth\nsubjectAltName=DNS:$name,IP:$address\n"
leaf client kube-scheduler client-ca 'extendedKeyUsage=clientAuth\n'
rm -f server-ca.key client-ca.key ./*.srl

cat <<EOF
In $folder:
  tls.crt tls.key client-ca.crt        for milligpud:
      kubectl -n milligpu-system create secret generic milligpu-webhook \\
          --from-file=$folder/tls.crt --from-file=$folder/tls.key --from-file=$folder/client-ca.crt
  server-ca.crt client.crt client.key  for kube-scheduler: copy them to /etc/kubernetes/milligpu/ of every
                                       control-plane node, readable by root alone
Valid for $days days: $(openssl x509 -in tls.crt -noout -enddate | cut -d= -f2)
EOF
