/// The oldest accepted version of TLS.
package enum MinimumTLS: String, Sendable, CaseIterable {
    case v1_2 = "1.2"
    case v1_3 = "1.3"
}
