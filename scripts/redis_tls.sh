#!/usr/bin/env bash
# Make a certificate authority of your own, and with it a certificate for a Redis that is reached by TLS.
#   scripts/redis_tls.sh tls redis.example 10.0.0.5     into tls/, for a server by that name and that address
# It leaves ca.pem (copy it to every machine of the run), ca.key (keep it: it signs), and redis.pem with redis.key (the
# server's). An authority that is there is used again, so that a new certificate needs nothing on the other machines.
# DAYS: how long the certificate is good for (825); the authority ten years.
set -euo pipefail
[ $# -ge 2 ] || { sed -n 2,6p "$0" >&2; exit 2; }
folder=$1
shift
command -v openssl >/dev/null || { echo "redis_tls: there is no openssl: apt-get install openssl" >&2; exit 1; }
umask 077
mkdir -p "$folder"
new=(openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
quietly() { "$@" 2>"$folder/openssl.log" || { cat "$folder/openssl.log" >&2; exit 1; }; rm -f "$folder/openssl.log"; }

if [ ! -s "$folder/ca.key" ]; then
    quietly "${new[@]}" -days 3650 -subj "/CN=millrace" -addext keyUsage=critical,keyCertSign,cRLSign \
        -keyout "$folder/ca.key" -out "$folder/ca.pem"
fi

names=
for name in "$@"; do
    if [[ $name =~ ^[0-9.]+$ || $name == *:* ]]; then kind=IP; else kind=DNS; fi
    names=${names:+$names,}$kind:$name
done
quietly "${new[@]}" -days "${DAYS:-825}" -subj "/CN=redis" -addext "subjectAltName=$names" \
    -addext basicConstraints=critical,CA:false -addext keyUsage=critical,digitalSignature \
    -addext extendedKeyUsage=serverAuth,clientAuth -CA "$folder/ca.pem" -CAkey "$folder/ca.key" \
    -keyout "$folder/redis.key" -out "$folder/redis.pem"
chmod 644 "$folder/ca.pem" "$folder/redis.pem"
echo "$folder: redis.pem for $names; copy $folder/ca.pem to the other machines"
