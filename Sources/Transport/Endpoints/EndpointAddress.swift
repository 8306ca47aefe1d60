/// The address of a message endpoint that an operator can configure.
public enum EndpointAddress: Sendable, Equatable, CustomStringConvertible {
    /// A Unix domain socket.
    case unix(path: String)
    /// A program started without a shell; its standard input and output are the stream.
    case exec(arguments: [String])
    /// A terminal device in raw mode, eight bits, no parity, one stop bit.
    case serial(device: String, speed: Int)

    public var description: String {
        switch self {
        case .unix(let path): "unix:\(path)"
        case .exec(let arguments): "exec:\(arguments.joined(separator: " "))"
        case .serial(let device, let speed): "serial:\(device)?speed=\(speed)"
        }
    }

    /// For status and logs, without the arguments of a command, which may contain secrets.
    var shortDescription: String {
        if case .exec(let arguments) = self { "exec:\(arguments.first ?? "")" } else { description }
    }
}
