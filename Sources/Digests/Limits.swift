/// Bounds on what this target accepts from outside, each with its reason.
public enum DigestLimits {
    /// Largest memory, in bytes, that one scrypt derivation may use. The default parameters
    /// (2^15, r 8) need 32 MiB; four times that leaves room to raise them once, and keeps a
    /// hash text from a configuration file from taking the machine's memory.
    public static let scryptMemory: UInt64 = 128 << 20
    /// Largest parallelisation parameter of scrypt: time grows with it and memory does not,
    /// so the memory limit alone would not bound the work.
    public static let scryptParallelization: UInt32 = 16
    /// Longest password, in bytes. Longer ones are refused so that a request cannot buy hashing time.
    public static let passwordBytes = 1024
    /// Salt and key lengths, in bytes, accepted in a password hash.
    public static let passwordHashFieldBytes = 8...128
    /// Longest text of a password hash, in bytes: both fields at their longest, and the parameters.
    public static let passwordHashTextBytes = 512
}
