#!/bin/sh
# Write the stubs of protos/ into v1/, with plugins of the versions that go.mod pins. PROTOC: the compiler, protoc if not set.
set -eu
cd "$(dirname "$0")"
mkdir -p bin
go build -o bin/ google.golang.org/protobuf/cmd/protoc-gen-go google.golang.org/grpc/cmd/protoc-gen-go-grpc
protos=../../protos
PATH="$PWD/bin:$PATH" ${PROTOC:-protoc} -I "$protos" \
    --go_out=. --go_opt=module=oncelog --go-grpc_out=. --go-grpc_opt=module=oncelog "$protos"/oncelog/v1/*.proto
