/// The errors of this module, all caused by a value from outside.
public enum DigestError: Error, Equatable, Sendable, CustomStringConvertible {
    /// A password hash that is not of the form `$scrypt$ln=15,r=8,p=1$<base64 salt>$<base64 key>`. `reason` says which part is wrong.
    case malformedPasswordHash(reason: String)
    /// A password longer than `DigestLimits.passwordBytes`.
    case passwordTooLong(bytes: Int, limit: Int)
    /// scrypt parameters outside the limits, or refused by OpenSSL.
    case scryptParameters(reason: String)
    /// The system's source of randomness failed.
    case randomnessUnavailable

    public var description: String {
        switch self {
        case .malformedPasswordHash(let reason):
            "the password hash is malformed: \(reason); expected $scrypt$ln=15,r=8,p=1$<base64 salt>$<base64 key>: make a new one"
        case .passwordTooLong(let bytes, let limit):
            "the password has \(bytes) bytes, more than passwordBytes = \(limit): choose a shorter one"
        case .scryptParameters(let reason):
            "scrypt cannot be run with these parameters: \(reason)"
        case .randomnessUnavailable:
            "the system's random generator gave nothing: check OpenSSL's configuration and /dev/urandom"
        }
    }
}
