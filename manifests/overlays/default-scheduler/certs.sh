#!/usr/bin/env bash
# certs.sh - certificates for mutual TLS between kube-scheduler and milligpud's webhooks
#
#   ./certs.sh [FOLDER [ADDRESS]]               defaults: certs, 10.96.0.210; DAYS in the environment: validity (825)
#   ./certs.sh --renew OLD [FOLDER [ADDRESS]]   default: certs-DATE; OLD: the folder of the present certificates
#
# There are two CAs, because the holder of a certificate of the client CA can have pods bound with milligpud's rights;
# the server's certificate must not allow that. The keys of both CAs are deleted at the end, so that nobody can sign
# another certificate. To renew therefore makes new CAs. The files of CAs then contain both, the new one and that of OLD,
# so that neither side refuses the other while the files are installed one after the other.
set -euo pipefail

case ${1:-} in
-h | --help) sed '1d; /^#/!Q; s/^# \{0,1\}//' "$0"; exit 0 ;;
--renew)
    [ -f "${2:-}/server-ca.crt" ] && [ -f "$2/client-ca.crt" ] || {
        echo "certs.sh: --renew needs the folder of the present certificates, with server-ca.crt and client-ca.crt" >&2
        exit 2
    }
    old=$(cd "$2" && pwd)
    shift 2
    set -- "${1:-certs-$(date -u +%F)}" "${@:2}"
    ;;
-*) echo "certs.sh: unknown option $1; see --help" >&2; exit 2 ;;
esac
folder=${1:-certs}
address=${2:-10.96.0.210}
name=milligpu.milligpu-system.svc
days=${DAYS:-825}
old=${old:-}

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

# Names of their own: where two CAs of one name are trusted, a verifier may try the wrong one only.
generation=$(openssl rand -hex 4)
authority server-ca "milligpu webhook servers $generation"
authority client-ca "milligpu webhook clients $generation"
leaf tls "$name" server-ca "extendedKeyUsage=serverAuth\nsubjectAltName=DNS:$name,IP:$address\n"
leaf client kube-scheduler client-ca 'extendedKeyUsage=clientAuth\n'
rm -f server-ca.key client-ca.key ./*.srl

if [ -n "$old" ]; then
    cp client-ca.crt client-ca.new.crt
    for ca in server-ca client-ca; do
        # Only the newest CA of OLD: what was replaced by it is not trusted for another time.
        openssl x509 -in "$old/$ca.crt" >>$ca.crt
    done
    cat <<EOF
In $folder, to be installed in this order; no call is refused in between:
  1. client-ca.crt                     for milligpud, with the key and certificate of before:
      kubectl -n milligpu-system create secret generic milligpu-webhook --dry-run=client -o yaml \\
          --from-file=$old/tls.crt --from-file=$old/tls.key --from-file=$folder/client-ca.crt | kubectl replace -f -
     milligpud reads it by itself; kubelet shows it to the pod within two minutes.
  2. server-ca.crt client.crt client.key  for kube-scheduler: copy them to /etc/kubernetes/milligpu/ of every
     control-plane node, one node after the other, and restart kube-scheduler there.
  3. tls.crt tls.key                   for milligpud:
      kubectl -n milligpu-system create secret generic milligpu-webhook --dry-run=client -o yaml \\
          --from-file=$folder/tls.crt --from-file=$folder/tls.key --from-file=$folder/client-ca.crt | kubectl replace -f -
  4. The client certificate of before is good until it expires. To end that now, repeat 3 with
     --from-file=client-ca.crt=$folder/client-ca.new.crt as its last file.
Valid for $days days: $(openssl x509 -in tls.crt -noout -enddate | cut -d= -f2)
EOF
    exit 0
fi

cat <<EOF
In $folder:
  tls.crt tls.key client-ca.crt        for milligpud:
      kubectl -n milligpu-system create secret generic milligpu-webhook \\
          --from-file=$folder/tls.crt --from-file=$folder/tls.key --from-file=$folder/client-ca.crt
  server-ca.crt client.crt client.key  for kube-scheduler: copy them to /etc/kubernetes/milligpu/ of every
                                       control-plane node, readable by root alone
Valid for $days days: $(openssl x509 -in tls.crt -noout -enddate | cut -d= -f2)
EOF
