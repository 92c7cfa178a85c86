// Tests a learner of MOA on the rows of an ARFF file, chunk by chunk, and trains it on the rows whose labels have come.
//
//   java -cp 'jars/*' Prequential.java LEARNER ROWS.arff CHUNK LATE ANSWERS [over|under]
//
// LEARNER is MOA's own text of a learner. LATE: so many rows later than the end of the chunk a label comes. ANSWERS gets
// a line with the seconds of the processor, of all threads of this process, then a line for each row: the index of the
// class that is predicted, and the share of the second class among the votes.
//
// With a sixth word LEARNER is the base of an ensemble of ten that samples by class: online bagging in which rows of the
// rarer class are taken more often (over), or rows of the more frequent one less often (under), by the shares of the
// classes lately. So are OOB and UOB of Wang, Minku and Yao (2015), of which MOA has none.

import com.github.javacliparser.ClassOption;
import com.sun.management.OperatingSystemMXBean;
import com.yahoo.labs.samoa.instances.Instance;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Random;
import moa.classifiers.Classifier;
import moa.core.DoubleVector;
import moa.core.InstanceExample;
import moa.core.MiscUtils;
import moa.core.Utils;
import moa.streams.ArffFileStream;

public class Prequential {
    private static final int MEMBERS = 10;
    private static final double FADING = 0.9;
    private static final double NANOSECONDS = 1e9;

    private final List<Classifier> members = new ArrayList<>();
    private final String sampling;
    private final Random random = new Random(1);
    private final double[] shares = {0.5, 0.5};

    Prequential(String learner, ArffFileStream stream, String sampling) throws Exception {
        this.sampling = sampling;
        Classifier first = (Classifier) ClassOption.cliStringToObject(learner, Classifier.class, null);
        for (int at = 0; at < (sampling == null ? 1 : MEMBERS); at++) {
            Classifier member = (Classifier) first.copy();
            member.prepareForUse();
            member.setModelContext(stream.getHeader());
            member.resetLearning();
            members.add(member);
        }
    }

    private double[] votes(Instance row) {
        Instance asked = row.copy();
        asked.setMissing(asked.classAttribute());
        if (sampling == null) {
            return members.get(0).getVotesForInstance(asked);
        }
        DoubleVector sum = new DoubleVector();
        for (Classifier member : members) {
            DoubleVector vote = new DoubleVector(member.getVotesForInstance(asked));
            if (vote.sumOfValues() > 0.0) {
                vote.normalize();
                sum.addValues(vote);
            }
        }
        return sum.getArrayRef();
    }

    private void train(Instance row) {
        if (sampling == null) {
            members.get(0).trainOnInstance(row);
            return;
        }
        int own = (int) row.classValue();
        for (int side = 0; side < shares.length; side++) {
            shares[side] = FADING * shares[side] + (1.0 - FADING) * (side == own ? 1.0 : 0.0);
        }
        double other = Math.max(shares[1 - own], 1e-9), mine = Math.max(shares[own], 1e-9);
        double rate = sampling.equals("over") ? Math.max(1.0, other / mine) : Math.min(1.0, other / mine);
        for (Classifier member : members) {
            int times = MiscUtils.poisson(rate, random);
            if (times > 0) {
                Instance weighted = row.copy();
                weighted.setWeight(row.weight() * times);
                member.trainOnInstance(weighted);
            }
        }
    }

    public static void main(String[] words) throws Exception {
        ArffFileStream stream = new ArffFileStream(words[1], -1);
        stream.prepareForUse();
        int chunk = Integer.parseInt(words[2]), late = Integer.parseInt(words[3]);
        List<Instance> rows = new ArrayList<>();
        while (stream.hasMoreInstances()) {
            rows.add(((InstanceExample) stream.nextInstance()).getData());
        }
        Prequential learner = new Prequential(words[0], stream, words.length > 5 ? words[5] : null);
        int[] chosen = new int[rows.size()];
        double[] scores = new double[rows.size()];
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long begin = system.getProcessCpuTime();
        int learned = 0;
        for (int start = 0; start < rows.size(); start += chunk) {
            int stop = Math.min(start + chunk, rows.size());
            for (int at = start; at < stop; at++) {
                double[] votes = Arrays.copyOf(learner.votes(rows.get(at)), 2);
                chosen[at] = votes[1] > votes[0] ? 1 : 0;
                double sum = votes[0] + votes[1];
                // Some learners give votes without bound, of which there is no share.
                double sure = votes[1] > votes[0] ? 1.0 : votes[1] < votes[0] ? 0.0 : 0.5;
                scores[at] = sum > 0.0 && sum < Double.POSITIVE_INFINITY ? votes[1] / sum : sure;
            }
            for (; learned < stop - late; learned++) {
                learner.train(rows.get(learned));
            }
        }
        double seconds = (system.getProcessCpuTime() - begin) / NANOSECONDS;
        try (PrintWriter answers = new PrintWriter(words[4], "US-ASCII")) {
            answers.printf(Locale.ROOT, "%.6f%n", seconds);
            for (int at = 0; at < chosen.length; at++) {
                answers.printf(Locale.ROOT, "%d %.9g%n", chosen[at], scores[at]);
            }
        }
    }
}
