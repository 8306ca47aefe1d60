/// The oldest version of TLS that is spoken.
package enum MinimumTLS: String, Sendable, CaseIterable {
    case v1_2 = "1.2"
    case v1_3 = "1.3"
}
