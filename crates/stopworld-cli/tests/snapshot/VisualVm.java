import java.io.File;
import java.io.PrintStream;
import java.util.Iterator;
import org.graalvm.visualvm.lib.jfluid.heap.GCRoot;
import org.graalvm.visualvm.lib.jfluid.heap.Heap;
import org.graalvm.visualvm.lib.jfluid.heap.HeapFactory;
import org.graalvm.visualvm.lib.jfluid.heap.Instance;
import org.graalvm.visualvm.lib.jfluid.heap.JavaFrameGCRoot;
import org.graalvm.visualvm.lib.jfluid.heap.PrimitiveArrayInstance;
import org.graalvm.visualvm.lib.jfluid.heap.ThreadObjectGCRoot;

/**
 * Prints what VisualVM finds in an HPROF file: the number of roots, and for each object its address, size, retained size and class. Then what
 * its list of threads shows: each thread with its frames, and each object in a frame.
 */
public class VisualVm {
    public static void main(String[] arguments) throws Exception {
        Heap heap = HeapFactory.createHeap(new File(arguments[0]));
        try (PrintStream out = new PrintStream(arguments[1])) {
            out.println(heap.getGCRoots().size());
            for (Iterator<?> all = heap.getAllInstancesIterator(); all.hasNext(); ) {
                Instance object = (Instance) all.next();
                out.println(object.getInstanceId() + " " + object.getSize() + " " + object.getRetainedSize() + " "
                        + object.getJavaClass().getName());
            }
        }
        try (PrintStream out = new PrintStream(arguments[1] + ".threads")) {
            for (Object root : heap.getGCRoots()) {
                if (root instanceof ThreadObjectGCRoot thread) {
                    StackTraceElement[] frames = thread.getStackTrace();
                    out.println("thread " + (frames == null ? 0 : frames.length) + " " + name(thread.getInstance()));
                } else if (root instanceof JavaFrameGCRoot frame && frame.getThreadGCRoot() != null) {
                    out.println(frame.getInstance().getInstanceId() + " " + frame.getFrameNumber() + " "
                            + name(((GCRoot) frame.getThreadGCRoot()).getInstance()));
                }
            }
        }
    }

    /** The name in an object for a thread. */
    private static String name(Instance thread) {
        Instance name = (Instance) thread.getValueOfField("name");
        return String.join("", ((PrimitiveArrayInstance) name.getValueOfField("value")).getValues());
    }
}
