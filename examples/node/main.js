// Produces idempotently, runs transactions over three partitions, and reads what is committed: from the .proto files alone.
//
//   npm ci && node main.js [ADDRESS [TOPIC]]

import { randomUUID } from "node:crypto";
import { Cluster } from "./cluster.js";

const PARTITIONS = 3;
const [address = "localhost:9092", topic = "from-node"] = process.argv.slice(2);

/** A record's time is chosen once: a request that is sent again must be the same. */
function records(...values) {
  return values.map((value) => ({ value: Buffer.from(value), timestamp_ms: Date.now() }));
}

/** Sends a request again, as after a lost answer: the records are in the log once. */
async function produceTwice(cluster) {
  const producer = await cluster.call("Coordinator", "InitProducerId", {});
  const { producer_id, producer_epoch, session_token } = producer;
  const identity = { producer_id, producer_epoch, session_token, base_sequence: 0 };
  const request = { topic, partition: 0, records: records("event 0", "event 1"), ...identity };
  for (let time = 0; time < 2; time++) {
    const reply = await cluster.call("PartitionLeader", "ProduceRecords", request);
    console.log(`wrote at ${reply.base_offset}, duplicate: ${reply.duplicate}`);
  }
}

/** A transactional id: older sessions of it are fenced, and its transactions are numbered. */
class Session {
  constructor(cluster, id, known) {
    this.cluster = cluster;
    this.id = id;
    this.known = known;
    this.txnNo = BigInt(known.next_txn_no);
  }

  static async begin(cluster, id) {
    const request = { transactional_id: id, transaction_timeout_ms: 60_000, nonce: randomUUID() };
    return new Session(cluster, id, await cluster.call("Coordinator", "InitProducerId", request));
  }

  async transaction(word, outcome) {
    const { producer_id, producer_epoch, session_token, txn_shard } = this.known;
    const txn_no = this.txnNo.toString();
    for (let partition = 0; partition < PARTITIONS; partition++) {
      const identity = { producer_id, producer_epoch, session_token, base_sequence: 0 }; // 0 in each transaction anew
      const name = { transactional_id: this.id, txn_no };
      const request = { topic, partition, records: records(word), ...identity, ...name };
      await this.cluster.call("PartitionLeader", "ProduceRecords", request);
    }
    const name = { transactional_id: this.id, txn_shard, txn_producer_id: producer_id, txn_no, producer_epoch, session_token };
    const reply = await this.cluster.call("Coordinator", "EndTransaction", { name, outcome, wait: "END_WAIT_VISIBLE" });
    if (reply.outcome !== outcome) throw new Error(`somebody else has decided the transaction: ${reply.outcome}`);
    console.log(`transaction ${txn_no}: ${reply.outcome}`);
    this.txnNo++;
  }
}

/** Reads each partition to its last stable offset: nothing aborted, nothing of an open transaction. */
async function readAll(cluster) {
  for (let partition = 0; partition < PARTITIONS; partition++) {
    for (let offset = 0n, end = 1n; offset < end; ) {
      const isolation_level = "ISOLATION_LEVEL_READ_COMMITTED";
      const request = { topic, partition, offset: offset.toString(), isolation_level, max_wait_ms: 500 };
      const reply = await cluster.call("PartitionLeader", "FetchRecords", request);
      for (const record of reply.records) console.log(`read ${partition}/${record.offset}: ${record.value}`);
      offset = BigInt(reply.next_offset);
      end = BigInt(reply.last_stable_offset);
    }
  }
}

const cluster = new Cluster(address);
try {
  const created = { topic, partitions: PARTITIONS, if_not_exists: true, timeout_ms: 10_000 };
  await cluster.call("PartitionLeader", "CreateTopic", created);
  await produceTwice(cluster);
  const session = await Session.begin(cluster, `example-${topic}`);
  await session.transaction("wrong", "TRANSACTION_OUTCOME_ABORTED");
  await session.transaction("right", "TRANSACTION_OUTCOME_COMMITTED");
  await readAll(cluster);
} finally {
  cluster.close();
}
