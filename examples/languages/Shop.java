// A program in Java that uses a stream of Deltaplane with nothing of Deltaplane's: it sends an event as JSON to a topic
// of the shop's, reads the prediction of it, and sends a sample in Avro straight to the stream.
//
//   java -cp 'jars/*' Shop.java BROKER EVENTS STREAM DATA_FINGERPRINT SCHEMAS ID
//
// jars: org.apache.kafka:kafka-clients and org.apache.avro:avro with what they need. DATA_FINGERPRINT is what
// `deltaplane definition show --json` prints. SCHEMAS: the directory with prediction.avsc and named_sample.avsc.

import java.io.File;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.HexFormat;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.avro.SchemaNormalization;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.message.BinaryMessageDecoder;
import org.apache.avro.message.BinaryMessageEncoder;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Shop {
    public static void main(String[] args) throws Exception {
        String broker = args[0], events = args[1], stream = args[2], id = args[5];
        byte[] fingerprint = HexFormat.of().parseHex(args[3]);
        Schema prediction = new Schema.Parser().parse(new File(args[4], "prediction.avsc"));
        Schema sample = new Schema.Parser().parse(new File(args[4], "named_sample.avsc"));

        Map<String, Object> sending = Map.of("bootstrap.servers", broker, "acks", "all");
        try (var out = new KafkaProducer<>(sending, new ByteArraySerializer(), new ByteArraySerializer())) {
            // An event, as the shop has it. The key is the shop's own.
            String event = """
                {"tx": {"ref": "%s", "created": %d, "sum": {"value": 12.5, "currency": "EUR"},
                        "country": "DE", "known": true}}""".formatted(id, System.currentTimeMillis());
            out.send(new ProducerRecord<>(events, "customer 7".getBytes(), event.getBytes())).get();
            System.out.println(id + ": " + predicted(broker, stream + ".predictions", prediction, id));

            // A sample without an intake. Its key is its id, by which Kafka's own partitioner finds the right partition.
            GenericRecord row = new GenericData.Record(sample);
            row.put("fingerprint", new GenericData.Fixed(sample.getField("fingerprint").schema(), fingerprint));
            row.put("id", id + "-direct");
            row.put("event_time", System.currentTimeMillis());
            row.put("label", "fraud");
            row.put("cells", Map.of("amount", 250.0, "country", "NG", "known", false));
            ByteBuffer value = new BinaryMessageEncoder<GenericRecord>(GenericData.get(), sample).encode(row);
            byte[] bytes = new byte[value.remaining()];
            value.get(bytes);
            out.send(new ProducerRecord<>(stream + ".samples", (id + "-direct").getBytes(), bytes)).get();
        }
    }

    /** The class that is predicted for an id; waits for up to two minutes. */
    static String predicted(String broker, String topic, Schema schema, String id) throws Exception {
        var decoder = new BinaryMessageDecoder<GenericRecord>(GenericData.get(), schema);
        // The first ten bytes say what a message is. Other messages of the topic are passed over.
        byte[] mark = ByteBuffer.allocate(10).put((byte) 0xC3).put((byte) 1)
            .put(SchemaNormalization.parsingFingerprint("CRC-64-AVRO", schema)).array();
        Map<String, Object> reading = Map.of("bootstrap.servers", broker);
        try (var in = new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            var places = in.partitionsFor(topic).stream().map(one -> new TopicPartition(topic, one.partition())).toList();
            in.assign(places);
            in.seekToBeginning(places);
            long until = System.currentTimeMillis() + 120_000;
            while (System.currentTimeMillis() < until) {
                for (ConsumerRecord<byte[], byte[]> record : in.poll(Duration.ofMillis(200))) {
                    if (ByteBuffer.wrap(record.value(), 0, 10).equals(ByteBuffer.wrap(mark))) {
                        GenericRecord answer = decoder.decode(record.value());
                        if (answer.get("id").toString().equals(id)) {
                            return answer.get("class").toString();
                        }
                    }
                }
            }
            throw new IllegalStateException("no prediction of " + id + " has come");
        }
    }
}
