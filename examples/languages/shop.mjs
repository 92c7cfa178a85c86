// A program in JavaScript that uses a stream of Deltaplane with nothing of Deltaplane's: it sends an event as JSON to a
// topic of the shop's, reads the prediction of it, and sends a sample in Avro straight to the stream.
//
//   node shop.mjs BROKER EVENTS STREAM DATA_FINGERPRINT SCHEMAS ID
//
// DATA_FINGERPRINT is what `deltaplane definition show --json` prints. SCHEMAS: the directory with prediction.avsc and
// named_sample.avsc. kafkajs reads gzip alone, so the scorer is started with --kafka compression.type=gzip.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import avro from "avsc";
import { Kafka, Partitioners, logLevel } from "kafkajs";

const [broker, events, stream, fingerprint, schemas, id] = process.argv.slice(2);
const schema = (name) => JSON.parse(readFileSync(join(schemas, `${name}.avsc`), "utf8"));
const prediction = avro.Type.forSchema(schema("prediction"));
const sample = avro.Type.forSchema(schema("named_sample"), { wrapUnions: true });

// The first ten bytes of a message say what it is: C3 01, and the CRC-64-AVRO of its schema.
const PREDICTION = Buffer.from("c301049a15fe28c88b82", "hex");
const NAMED_SAMPLE = Buffer.from("c301da57d27124068b6f", "hex");

const kafka = new Kafka({ clientId: "shop", brokers: [broker], logLevel: logLevel.ERROR });
const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner });
await producer.connect();

// An event, as the shop has it. The key is the shop's own.
const tx = { ref: id, created: Date.now(), sum: { value: 12.5, currency: "EUR" }, country: "DE", known: true };
await producer.send({ topic: events, messages: [{ key: "customer 7", value: JSON.stringify({ tx }) }] });
console.log(`${id}: ${await predicted()}`);

// A sample without an intake. Its key is its id, by which Kafka's own partitioner finds the right partition.
const row = {
  fingerprint: Buffer.from(fingerprint, "hex"),
  id: `${id}-direct`,
  event_time: Date.now(),
  label: "fraud",
  cells: { amount: { double: 250.0 }, country: { string: "NG" }, known: { boolean: false } },
};
const value = Buffer.concat([NAMED_SAMPLE, sample.toBuffer(row)]);
await producer.send({ topic: `${stream}.samples`, messages: [{ key: row.id, value }] });
await producer.disconnect();

// The class that is predicted for the id; waits for up to two minutes.
async function predicted() {
  const consumer = kafka.consumer({ groupId: `shop-${id}` });
  await consumer.connect();
  await consumer.subscribe({ topic: `${stream}.predictions`, fromBeginning: true });
  let timer;
  const found = new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no prediction of ${id} has come`)), 120_000);
    consumer.run({
      eachMessage: async ({ message }) => {
        if (!message.value.subarray(0, 10).equals(PREDICTION)) return;
        const answer = prediction.fromBuffer(message.value.subarray(10));
        if (answer.id === id) resolve(answer.class);
      },
    }).catch(reject);
  });
  try {
    return await found;
  } finally {
    clearTimeout(timer);
    await consumer.disconnect();
  }
}
