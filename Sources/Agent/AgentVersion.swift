/// The version that status and the User-Agent header show.
public enum AgentVersion {
    public static let number = "0.1.0"
}
