import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Publishes lines "key TAB value in hex" to a topic, as any Java program does that leaves the partition to Kafka's client. */
public class Placing {
  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    properties.put("bootstrap.servers", arguments[0]);
    try (KafkaProducer<String, byte[]> producer =
            new KafkaProducer<>(properties, new StringSerializer(), new ByteArraySerializer());
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"))) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        int tab = line.lastIndexOf('\t');
        byte[] value = java.util.HexFormat.of().parseHex(line.substring(tab + 1));
        producer.send(new ProducerRecord<>(arguments[1], line.substring(0, tab), value)).get();
      }
    }
  }
}
