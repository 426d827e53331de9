import java.io.File;
import java.io.PrintStream;
import java.util.Iterator;
import org.graalvm.visualvm.lib.jfluid.heap.Heap;
import org.graalvm.visualvm.lib.jfluid.heap.HeapFactory;
import org.graalvm.visualvm.lib.jfluid.heap.Instance;

/** Prints what VisualVM finds in an HPROF file: the number of roots, and for each object its address, size, retained size and class. */
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
    }
}
