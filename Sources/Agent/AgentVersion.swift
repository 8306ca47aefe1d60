/// The version that status and the User-Agent header show.
package enum AgentVersion {
    package static let number = "0.1.0"
}
