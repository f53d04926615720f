// Prints log-validator.txt: what Kafka's own LogValidator makes of produced records, and Kafka's own down-conversion.
//
//   javac -cp 'lib/*' LogValidatorGolden.java && java -cp 'lib/*:.' LogValidatorGolden > log-validator.txt
//
// with kafka-storage 3.9.1 and its dependencies from Maven Central in lib/.

import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.requests.ProduceResponse.RecordError;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.storage.internals.log.*;

public class LogValidatorGolden {
    static final long T = 1700000000000L;
    static final long NOW = T + 1000;
    static final long FIRST_OFFSET = 42;
    static final int LEADER_EPOCH = 7;

    static final LogValidator.MetricsRecorder METRICS = new LogValidator.MetricsRecorder() {
        public void recordInvalidMagic() {}
        public void recordInvalidOffset() {}
        public void recordInvalidSequence() {}
        public void recordInvalidChecksums() {}
        public void recordNoKeyCompactedTopic() {}
    };

    static String hex(ByteBuffer bytes) {
        StringBuilder hex = new StringBuilder();
        for (ByteBuffer b = bytes.duplicate(); b.hasRemaining(); ) hex.append(String.format("%02x", b.get()));
        return hex.toString();
    }

    static SimpleRecord record(long timestamp, String key, String value, Header... headers) {
        return new SimpleRecord(timestamp, key == null ? null : key.getBytes(), value == null ? null : value.getBytes(), headers);
    }

    static final SimpleRecord[] ONE = {record(T, "k", "v")};
    static final SimpleRecord[] THREE = {
        record(T + 5, "a", "1", new RecordHeader("h", null), new RecordHeader("h", "x".getBytes())),
        record(T - 3, null, "22"),
        record(T + 2, "ccc", null),
    };
    static final SimpleRecord[] KEYED = {record(T, "a", "1"), record(T + 9, "", "2"), record(T + 4, "c", "3")};
    static final SimpleRecord[] UNSTAMPED = {record(-1, "a", "1"), record(-1, "b", "2")};

    static ByteBuffer build(int magic, Compression compression, TimestampType type, long baseOffset, long pid, SimpleRecord... records) {
        ByteBuffer buffer = ByteBuffer.allocate(4096);
        MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, (byte) magic, compression, type, baseOffset, NOW - 500,
            pid, (short) (pid < 0 ? -1 : 3), pid < 0 ? -1 : 11, false, -1);
        for (SimpleRecord record : records)
            builder.append(magic < 2 ? new SimpleRecord(record.timestamp(), record.key(), record.value()) : record);
        return builder.build().buffer();
    }

    // A magic-2 batch whose record offsets are given, header consistent with their number.
    static ByteBuffer withOffsets(Compression compression, long... offsets) {
        ByteBuffer buffer = ByteBuffer.allocate(4096);
        MemoryRecordsBuilder builder = MemoryRecords.builder(buffer, (byte) 2, compression, TimestampType.CREATE_TIME, 0L);
        for (long offset : offsets) builder.appendWithOffset(offset, T + offset, "k".getBytes(), ("v" + offset).getBytes());
        ByteBuffer batch = builder.build().buffer();
        batch.putInt(23, offsets.length - 1);
        return reseal(batch);
    }

    static ByteBuffer reseal(ByteBuffer batch) {
        long crc = Crc32C.compute(batch, 21, batch.limit() - 21);
        batch.putInt(17, (int) crc);
        return batch;
    }

    // A magic-1 wrapper with these outer and inner offsets.
    static ByteBuffer wrapper(long outer, long... inner) {
        ByteBuffer set = ByteBuffer.allocate(4096);
        for (long offset : inner) {
            LegacyRecord message = LegacyRecord.create((byte) 1, T + offset, "k".getBytes(), ("v" + offset).getBytes());
            set.putLong(offset).putInt(message.sizeInBytes()).put(message.buffer().duplicate());
        }
        set.flip();
        ByteBufferOutputStream stream = new ByteBufferOutputStream(4096);
        try (java.io.OutputStream out = Compression.gzip().build().wrapForOutput(stream, (byte) 1)) {
            byte[] bytes = new byte[set.remaining()];
            set.get(bytes);
            out.write(bytes);
        } catch (java.io.IOException e) { throw new RuntimeException(e); }
        ByteBuffer value = stream.buffer();
        value.flip();
        byte[] bytes = new byte[value.remaining()];
        value.get(bytes);
        LegacyRecord message = LegacyRecord.create((byte) 1, T + 7, null, bytes, CompressionType.GZIP, TimestampType.CREATE_TIME);
        ByteBuffer out = ByteBuffer.allocate(12 + message.sizeInBytes());
        out.putLong(outer).putInt(message.sizeInBytes()).put(message.buffer().duplicate()).flip();
        return out;
    }

    static ByteBuffer concat(ByteBuffer... parts) {
        ByteBuffer out = ByteBuffer.allocate(8192);
        for (ByteBuffer part : parts) out.put(part.duplicate());
        out.flip();
        return out;
    }

    static Compression compression(String name) {
        return Compression.of(CompressionType.forName(name)).build();
    }

    static void validate(String why, ByteBuffer input, int toMagic, String target, TimestampType type, long before, long after, boolean compacted) {
        String in = hex(input);
        ByteBuffer copy = ByteBuffer.allocate(input.remaining()).put(input.duplicate());
        copy.flip();
        MemoryRecords records = MemoryRecords.readableRecords(copy);
        CompressionType source = CompressionType.NONE;
        for (RecordBatch batch : records.batches()) if (batch.isCompressed()) source = batch.compressionType();
        Compression to = target.equals("producer") ? Compression.of(source).build() : compression(target);
        String result;
        try {
            LogValidator.ValidationResult valid = new LogValidator(records, new TopicPartition("t", 0), new MockNow(), source, to,
                compacted, (byte) toMagic, type, before, after, LEADER_EPOCH, AppendOrigin.CLIENT, MetadataVersion.latestProduction())
                .validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(FIRST_OFFSET), METRICS, BufferSupplier.NO_CACHING);
            result = "ok " + valid.maxTimestampMs + " " + valid.messageSizeMaybeChanged + " " + hex(valid.validatedRecords.buffer());
        } catch (RecordValidationException e) {
            StringBuilder indexes = new StringBuilder();
            for (RecordError error : e.recordErrors()) indexes.append(indexes.length() == 0 ? "" : ",").append(error.batchIndex);
            result = "err " + Errors.forException(e.invalidException()).code() + " " + indexes + " " + e.recordErrors().get(0).message;
        } catch (Exception e) {
            result = "err " + Errors.forException(e).code();
        }
        System.out.println("validate|" + why + "|" + toMagic + "|" + target + "|" + type + "|" + before + "|" + after + "|" + compacted + "|" + in + "|" + result);
    }

    static void downConvert(String why, ByteBuffer input, int toMagic, long fetchOffset) {
        String in = hex(input);
        String result;
        try {
            result = "ok " + hex(((MemoryRecords) MemoryRecords.readableRecords(input.duplicate())
                .downConvert((byte) toMagic, fetchOffset, new MockNow()).records()).buffer());
        } catch (Exception e) {
            result = "err " + Errors.forException(e).code();
        }
        System.out.println("down|" + why + "|" + toMagic + "|" + fetchOffset + "|" + in + "|" + result);
    }

    static class MockNow implements Time {
        public long milliseconds() { return NOW; }
        public long nanoseconds() { return 0; }
        public void sleep(long ms) {}
        public void waitObject(Object o, java.util.function.Supplier<Boolean> condition, long deadline) {}
    }

    static final long MAX = Long.MAX_VALUE;

    static void accept(String why, ByteBuffer input) {
        validate(why, input, 2, "producer", TimestampType.CREATE_TIME, MAX, MAX, false);
    }

    public static void main(String[] args) {
        System.out.println("# Written by LogValidatorGolden.java with the classes of Kafka 3.9.1.");
        System.out.println("# now = 1700000001000, first offset 42, leader epoch 7.");
        System.out.println("# validate|case|topic magic|compression.type|timestamp type|before|after|compacted|input|ok max-timestamp rebuilt output");
        System.out.println("# validate|..|err code failing-indexes first-message");
        System.out.println("# down|case|target magic|fetch offset|input|ok output, or err code");
        String[] codecs = {"none", "gzip", "snappy", "lz4", "zstd"};
        for (int magic = 0; magic <= 2; magic++)
            for (String codec : codecs) {
                if (magic < 2 && codec.equals("zstd")) continue;
                ByteBuffer input = build(magic, compression(codec), TimestampType.CREATE_TIME, 0, -1, THREE);
                for (int toMagic = 0; toMagic <= 2; toMagic++)
                    for (String target : new String[]{"producer", "none", "gzip", "zstd"}) {
                        if (toMagic < 2 && (target.equals("zstd") || target.equals("producer") && codec.equals("zstd"))) continue;
                        if (toMagic < 2 && target.equals("none") && !codec.equals("gzip")) continue;
                        for (TimestampType type : new TimestampType[]{TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME}) {
                            if (type == TimestampType.LOG_APPEND_TIME && target.equals("gzip")) continue;
                            validate("magic " + magic + " " + codec, input, toMagic, target, type, MAX, MAX, false);
                        }
                    }
                validate("one record, magic " + magic + " " + codec, build(magic, compression(codec), TimestampType.CREATE_TIME, 0, -1, ONE),
                    2, "producer", TimestampType.CREATE_TIME, MAX, MAX, false);
                validate("no timestamps, magic " + magic + " " + codec, build(magic, compression(codec), TimestampType.CREATE_TIME, 0, -1, UNSTAMPED),
                    2, "producer", TimestampType.CREATE_TIME, 0, 0, false);
                validate("a null key in a compacted topic, magic " + magic + " " + codec, input, 2, "producer", TimestampType.CREATE_TIME, MAX, MAX, true);
                validate("an empty key in a compacted topic, magic " + magic + " " + codec,
                    build(magic, compression(codec), TimestampType.CREATE_TIME, 0, -1, KEYED), 2, "producer", TimestampType.CREATE_TIME, MAX, MAX, true);
                validate("older than allowed, magic " + magic + " " + codec, input, 2, "producer", TimestampType.CREATE_TIME, 1000, MAX, false);
                validate("just old enough, magic " + magic + " " + codec, input, 2, "producer", TimestampType.CREATE_TIME, 1003, 0, false);
                validate("too old and null key, magic " + magic + " " + codec, input, 2, "producer", TimestampType.CREATE_TIME, 997, MAX, true);
                if (magic > 0) {
                    ByteBuffer appended = build(magic, compression(codec), TimestampType.LOG_APPEND_TIME, 0, -1, THREE);
                    accept("marked LogAppendTime by the producer, magic " + magic + " " + codec, appended);
                    validate("marked LogAppendTime by the producer, magic " + magic + " " + codec, appended, 2, "zstd",
                        TimestampType.CREATE_TIME, MAX, MAX, false);
                    validate("marked LogAppendTime by the producer, magic " + magic + " " + codec, appended, 2, "producer",
                        TimestampType.LOG_APPEND_TIME, MAX, MAX, false);
                }
                for (int toMagic = 0; toMagic < magic; toMagic++) {
                    downConvert("magic " + magic + " " + codec, build(magic, compression(codec), TimestampType.CREATE_TIME, 10, -1, THREE), toMagic, 0);
                    downConvert("from its second record on, magic " + magic + " " + codec,
                        build(magic, compression(codec), TimestampType.CREATE_TIME, 10, -1, THREE), toMagic, 11);
                    downConvert("LogAppendTime, magic " + magic + " " + codec,
                        build(magic, compression(codec), TimestampType.LOG_APPEND_TIME, 10, -1, THREE), toMagic, 0);
                }
            }
        for (String codec : codecs) {
            ByteBuffer input = build(2, compression(codec), TimestampType.CREATE_TIME, 0, 4000, KEYED);
            accept("idempotent " + codec, input);
            validate("idempotent " + codec, input, 2, "lz4", TimestampType.CREATE_TIME, MAX, MAX, false);
            validate("idempotent into an old format " + codec, input, 1, codec.equals("zstd") ? "none" : "producer", TimestampType.CREATE_TIME, MAX, MAX, false);
            accept("record offsets 0, 2, 5, " + codec, withOffsets(compression(codec), 0, 2, 5));
            accept("two batches " + codec, concat(input, input));
        }
        accept("wrapper offset as Java clients set it", wrapper(2, 0, 1, 2));
        accept("wrapper offset 0 as librdkafka set it", wrapper(0, 0, 1, 2));
        accept("wrapper with inner offsets 0 throughout", wrapper(0, 0, 0, 0));
        accept("wrapper with gaps", wrapper(9, 0, 5, 9));
        accept("wrapper with offsets beyond its own", wrapper(1, 0, 1, 2));
        accept("wrapper with a base above 0", wrapper(5, 0, 1, 2));
        for (long outer : new long[]{0, 1, 2, 5, 9})
            validate("wrapper in a topic of magic 1, outer offset " + outer, wrapper(outer, 0, 1, 2), 1, "producer", TimestampType.CREATE_TIME, MAX, MAX, false);
        validate("inner offsets 0 throughout in a topic of magic 1", wrapper(0, 0, 0, 0), 1, "producer", TimestampType.CREATE_TIME, MAX, MAX, false);
        accept("wrapper and message", concat(wrapper(2, 0, 1, 2), build(1, compression("none"), TimestampType.CREATE_TIME, 0, -1, ONE)));
        accept("magic 0 and magic 1", concat(build(0, compression("none"), TimestampType.CREATE_TIME, 0, -1, ONE), build(1, compression("none"), TimestampType.CREATE_TIME, 0, -1, ONE)));
        int[][] patches = {{23, 0}, {23, -1}, {57, 0}, {57, -1}, {57, 2}, {57, 4}, {23, 5}};
        for (int[] patch : patches)
            accept("int at " + patch[0] + " set to " + patch[1], reseal(build(2, compression("none"), TimestampType.CREATE_TIME, 0, -1, KEYED).putInt(patch[0], patch[1])));
        ByteBuffer fewer = build(2, compression("none"), TimestampType.CREATE_TIME, 0, -1, KEYED).putInt(57, 2).putInt(23, 1);
        accept("bytes left after the last record", reseal(fewer));
        ByteBuffer more = build(2, compression("none"), TimestampType.CREATE_TIME, 0, -1, KEYED).putInt(57, 4).putInt(23, 3);
        accept("fewer records than counted", reseal(more));
        for (String codec : new String[]{"gzip", "snappy", "lz4", "zstd"}) {
            accept("bytes left after the last record, " + codec, reseal(build(2, compression(codec), TimestampType.CREATE_TIME, 0, -1, KEYED).putInt(57, 2).putInt(23, 1)));
            accept("fewer records than counted, " + codec, reseal(build(2, compression(codec), TimestampType.CREATE_TIME, 0, -1, KEYED).putInt(57, 4).putInt(23, 3)));
        }
        accept("a control batch", reseal(build(2, compression("none"), TimestampType.CREATE_TIME, 0, -1, KEYED).putShort(21, (short) 0x20)));
        accept("a producer id without a sequence", reseal(build(2, compression("none"), TimestampType.CREATE_TIME, 0, -1, KEYED).putLong(43, 4000)));
        accept("unknown attribute bits", reseal(build(2, compression("none"), TimestampType.CREATE_TIME, 0, -1, KEYED).putShort(21, (short) 0x7f80)));
        accept("unknown attribute bits and a wrong maximum", reseal(build(2, compression("none"), TimestampType.CREATE_TIME, 0, -1, KEYED).putShort(21, (short) 0x7f80).putLong(35, 0)));
        accept("a maximum timestamp above the records'", reseal(build(2, compression("none"), TimestampType.CREATE_TIME, 0, -1, KEYED).putLong(35, T + 99)));
        accept("timestamps at the edges", build(2, compression("none"), TimestampType.CREATE_TIME, 0, -1,
            record(0, "a", "1"), record(MAX, "b", "2"), record(-1, "c", "3"), record(7258118400000L, "d", "4")));
        ByteBuffer control = MemoryRecords.withEndTransactionMarker(10, NOW, 1, 4000, (short) 5, new EndTransactionMarker(ControlRecordType.COMMIT, 7)).buffer();
        downConvert("a marker", control, 1, 0);
        downConvert("a marker between batches", concat(build(2, compression("none"), TimestampType.CREATE_TIME, 9, -1, ONE), control,
            build(2, compression("gzip"), TimestampType.CREATE_TIME, 11, -1, ONE)), 1, 0);
    }
}
