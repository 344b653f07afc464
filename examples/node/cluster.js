// Calls of a cluster from its .proto files alone: each begins at one address, and goes where answers send it.

import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const PROTOS = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "protos");
const DEFINITIONS = loadSync(
  ["coordinator", "errors", "partition"].map((name) => `oncelog/v1/${name}.proto`),
  { includeDirs: [PROTOS], keepCase: true, longs: String, enums: String, defaults: true },
);
const V1 = grpc.loadPackageDefinition(DEFINITIONS).oncelog.v1;
const CALL_MS = 20_000;
const PAUSE_MS = 100;
const PAUSE_MAX_MS = 1_000;
const TRIES = 100;
const MAY_REPEAT = ["ERROR_ACTION_RETRY", "ERROR_ACTION_REFRESH"];
const { UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, UNKNOWN } = grpc.status;
/** FetchRecords may answer with 16 MiB; gRPC takes 4 unless it is told. */
const CHANNEL = { "grpc.max_receive_message_length": 64 << 20 };

/** What a server says of an error (`ErrorDetail`); undefined when none spoke: then nobody knows what became of the call. */
export function detailOf(error) {
  const [bytes] = error.metadata?.get("oncelog-error-bin") ?? [];
  return bytes && DEFINITIONS["oncelog.v1.ErrorDetail"].deserialize(bytes);
}

/** Without a detail only what is a matter of the connection: a reply that is too large, or a mistake in this program, stays so. */
function mayRepeat(error, detail) {
  if (detail) return MAY_REPEAT.includes(detail.action);
  return [UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, UNKNOWN].includes(error.code);
}

/** One cluster, known by one address; others are learned from answers. With TLS: `grpc.credentials.createSsl(...)`. */
export class Cluster {
  #first;
  #credentials;
  #stubs = new Map();

  constructor(address, credentials = grpc.credentials.createInsecure()) {
    this.#first = address;
    this.#credentials = credentials;
  }

  /**
   * The answer of whoever can give it: `await cluster.call("Coordinator", "GetOutcome", request)`.
   * The same request may be sent more than once, since an answer can be lost: it must be idempotent, as everything here is.
   */
  async call(service, method, request) {
    let address = this.#first;
    let pauseMs = PAUSE_MS;
    const been = new Set();
    for (let left = TRIES; ; left--) {
      been.add(address);
      try {
        return await this.#once(address, service, method, request);
      } catch (error) {
        const detail = detailOf(error);
        if (left === 0 || (!detail?.go_to && !mayRepeat(error, detail))) throw error;
        address = detail?.go_to || this.#first;
        if (detail?.go_to && !been.has(address)) continue;
        // From the beginning: also when two send to each other, as while a leader changes.
        await sleep(Math.max(pauseMs, Number(detail?.retry_after_ms ?? 0)));
        address = this.#first;
        been.clear();
        pauseMs = Math.min(2 * pauseMs, PAUSE_MAX_MS);
      }
    }
  }

  #once(address, service, method, request) {
    const deadline = Date.now() + CALL_MS;
    return new Promise((resolve, reject) => {
      this.#stub(address, service)[method](request, { deadline }, (error, reply) => (error ? reject(error) : resolve(reply)));
    });
  }

  #stub(address, service) {
    const key = `${service}@${address}`;
    if (!this.#stubs.has(key)) this.#stubs.set(key, new V1[service](address, this.#credentials, CHANNEL));
    return this.#stubs.get(key);
  }

  close() {
    for (const stub of this.#stubs.values()) stub.close();
  }
}
