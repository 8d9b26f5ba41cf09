import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Reads a partition to a given offset, a few records at a time, and writes each with an exclamation mark to every
 * partition of the target, in transactions. Every third transaction is aborted and done again.
 *
 * Arguments: bootstrap servers, transactional id, group, source topic, end offset, target topic, its partitions.
 */
public class ConsumeTransformProduce {
    public static void main(String[] args) {
        String bootstrap = args[0];
        String transactionalId = args[1];
        String group = args[2];
        TopicPartition source = new TopicPartition(args[3], 0);
        long end = Long.parseLong(args[4]);
        String target = args[5];
        int partitions = Integer.parseInt(args[6]);

        Properties reading = new Properties();
        reading.put("bootstrap.servers", bootstrap);
        reading.put("group.id", group);
        reading.put("enable.auto.commit", "false");
        reading.put("auto.offset.reset", "earliest");
        reading.put("isolation.level", "read_committed");
        reading.put("max.poll.records", "7");
        Properties writing = new Properties();
        writing.put("bootstrap.servers", bootstrap);
        writing.put("transactional.id", transactionalId);

        StringSerializer text = new StringSerializer();
        try (KafkaConsumer<String, String> consumer =
                        new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
                KafkaProducer<String, String> producer = new KafkaProducer<>(writing, text, text)) {
            producer.initTransactions();
            consumer.assign(List.of(source));
            int number = 0;
            while (consumer.position(source) < end) {
                long start = consumer.position(source);
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofSeconds(30));
                producer.beginTransaction();
                for (ConsumerRecord<String, String> record : records) {
                    for (int partition = 0; partition < partitions; partition++) {
                        producer.send(new ProducerRecord<>(target, partition, null, record.value() + "!"));
                    }
                }
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                offsets.put(source, new OffsetAndMetadata(consumer.position(source)));
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (++number % 3 == 0) {
                    producer.flush();
                    producer.abortTransaction();
                    consumer.seek(source, start);
                } else {
                    producer.commitTransaction();
                }
            }
        } catch (ProducerFencedException fenced) {
            System.out.println("fenced");
        }
        System.out.println("done");
    }
}
