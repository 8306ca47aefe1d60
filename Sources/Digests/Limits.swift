/// Limits on what this module accepts from outside, each with its reason.
public enum DigestLimits {
    /// Maximum memory of one scrypt derivation, in bytes. The default parameters (2^15, r 8) need 32 MiB; four times that leaves room to raise them
    /// once, and prevents a hash in a configuration file from exhausting the machine's memory.
    public static let scryptMemory: UInt64 = 128 << 20
    /// Maximum parallelisation parameter of scrypt: time increases with it but memory does not, so the memory limit alone would not bound the work.
    public static let scryptParallelization: UInt32 = 16
    /// Longest password, in bytes. Longer ones are refused, so that a request cannot cause arbitrary hashing time.
    public static let passwordBytes = 1024
    /// Salt and key lengths, in bytes, accepted in a password hash.
    public static let passwordHashFieldBytes = 8...128
    /// Longest text of a password hash, in bytes: both fields at their maximum length, and the parameters.
    public static let passwordHashTextBytes = 512
}
