package messina;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.security.Permission;

import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.stress.settings.StressSettings;

/** Says of each line of its input whether the Java tool takes it as a command line: "taken" or "refused". */
public final class Lines {
    /** Thrown in the place of an exit. */
    private static final class Exit extends SecurityException {
        private static final long serialVersionUID = 1L;
    }

    private static volatile boolean ended;

    @SuppressWarnings("removal")
    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        // The tool prints its help, and exits.
        System.setOut(System.err);
        System.setSecurityManager(new SecurityManager() {
            @Override
            public void checkExit(int status) {
                if (!ended) {
                    throw new Exit();
                }
            }

            @Override
            public void checkPermission(Permission permission) {
            }
        });
        DatabaseDescriptor.clientInitialization();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(taken(line) ? "taken" : "refused");
        }
        answers.flush();
        ended = true;
        System.exit(0);
    }

    private static boolean taken(String line) {
        try {
            String[] words = line.isEmpty() ? new String[0] : line.split(" ");
            return StressSettings.parse(words) != null;
        } catch (Throwable refused) {
            refused.printStackTrace(System.err);
            return false;
        }
    }
}
