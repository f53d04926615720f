import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;

/** Rewrites load.txt and store.txt beside it with what java.util.Properties makes of their inputs. */
public class Golden {
    public static void main(String[] args) throws IOException {
        rewrite("load.txt", Golden::load);
        rewrite("store.txt", Golden::store);
    }

    interface Answer { String to(byte[] input) throws IOException; }

    static void rewrite(String file, Answer answer) throws IOException {
        List<String> rows = new ArrayList<>();
        for (String row : Files.readAllLines(Path.of(file))) {
            String[] cells = row.split(" \\| ");
            rows.add(row.startsWith("#") ? row : cells[0] + " | " + cells[1] + " | " + answer.to(bytes(cells[1])));
        }
        Files.write(Path.of(file), rows);
    }

    static String load(byte[] input) throws IOException {
        List<String> entries = new ArrayList<>();
        Properties properties = new Properties() {
            @Override public synchronized Object put(Object key, Object value) {
                entries.add(hex(key.toString()) + "=" + hex(value.toString()));
                return super.put(key, value);
            }
        };
        try {
            properties.load(new ByteArrayInputStream(input));
        } catch (IllegalArgumentException e) {
            return "error";
        }
        return entries.isEmpty() ? "nothing" : String.join(" ", entries);
    }

    /** The input is both key and value. */
    static String store(byte[] input) throws IOException {
        Properties properties = new Properties();
        String text = new String(input, StandardCharsets.UTF_8);
        properties.setProperty(text, text);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        properties.store(out, null);
        String entry = out.toString(StandardCharsets.ISO_8859_1).split("\n", 2)[1];
        return hex(entry.substring(0, entry.length() - 1));
    }

    static String hex(String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        return bytes.length == 0 ? "-" : HexFormat.of().formatHex(bytes);
    }

    static byte[] bytes(String hex) {
        return hex.equals("-") ? new byte[0] : HexFormat.of().parseHex(hex);
    }
}
