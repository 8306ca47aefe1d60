import NIOCore

extension ChannelOption where Self == ChannelOptions.Types.SocketOption {
    /// Linux: TCP_USER_TIMEOUT, in milliseconds.
    package static var tcpUserTimeout: Self { .init(level: .tcp, name: .init(rawValue: 18)) }
}

extension TimeAmount {
    /// As the system counts what it waits for.
    package var milliseconds: Int { Int(nanoseconds / 1_000_000) }
}
