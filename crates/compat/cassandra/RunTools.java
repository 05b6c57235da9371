import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Permission;
import java.util.Arrays;

/**
 * Runs offline tools one after another in this JVM. Each line of the file that is named first is the path of a file to
 * write its output to, the class of a tool, and its arguments, with tabs between them. Prints for each line "code path",
 * where code is what the tool ended with, and "code path why" when it ended by an exception. Errors stay where they are.
 */
public class RunTools {
    private static final class Ended extends SecurityException {
        final int code;

        Ended(int code) {
            super("exit " + code);
            this.code = code;
        }
    }

    /** Allows everything but the end of the JVM. */
    private static final class KeepRunning extends SecurityManager {
        @Override
        public void checkExit(int code) {
            throw new Ended(code);
        }

        @Override
        public void checkPermission(Permission permission) {}

        @Override
        public void checkPermission(Permission permission, Object context) {}
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream told = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setSecurityManager(new KeepRunning());
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] words = line.split("\t");
            told.println(run(words));
        }
        told.flush();
        System.setSecurityManager(null);
        // Tools leave threads behind.
        Runtime.getRuntime().halt(0);
    }

    private static String run(String[] words) throws Exception {
        try (PrintStream out = new PrintStream(new FileOutputStream(words[0]), false, StandardCharsets.UTF_8)) {
            System.setOut(out);
            try {
                Class<?> tool = Class.forName(words[1]);
                Object options = Arrays.copyOfRange(words, 2, words.length);
                tool.getMethod("main", String[].class).invoke(null, options);
                return "0 " + words[0];
            } catch (InvocationTargetException failed) {
                for (Throwable cause = failed; cause != null; cause = cause.getCause()) {
                    if (cause instanceof Ended) {
                        return ((Ended) cause).code + " " + words[0];
                    }
                }
                failed.printStackTrace(out);
                return "-1 " + words[0] + " " + failed.getCause();
            }
        }
    }
}
