import Environment
import Glibc
import Interfaces
import Logging
import MessageEndpoints
import NIOCore
import NIOPosix

/// Connects to an endpoint: the active side's ``TransportConnector`` for `exec:`, `unix:` and `serial:`.
public struct EndpointConnector: TransportConnector {
    public let address: EndpointAddress
    public var offer: EndpointOffer
    /// Called before each connection to get the current offer. May read files.
    public var refresh: (@Sendable () -> EndpointOffer)?
    /// The budget for memory held on behalf of the peer.
    private let memory: MemoryBudget
    private let group: any EventLoopGroup
    private let environment: Environment
    private let logger: Logger

    public init(
        _ address: EndpointAddress, offer: EndpointOffer, group: any EventLoopGroup, environment: Environment, memory: MemoryBudget = .unlimited,
        logger: Logger
    ) {
        self.memory = memory
        self.address = address
        self.offer = offer
        self.group = group
        self.environment = environment
        self.logger = logger
    }

    public func connect() async throws -> any MessageTransport {
        let eventLoop = group.next()
        var endpoint = MessageEndpoint(
            uid: "nightjar", target: address, protocolType: .byteStream, delegate: Streams(address: address, eventLoop: eventLoop, logger: logger),
            environment: environment, context: { EventLoopContext(eventLoop) })
        endpoint.offer = refresh?() ?? offer
        endpoint.limits = address.limits
        endpoint.memory = memory
        return try await endpoint.connect()
    }
}

extension EndpointAddress {
    var limits: MessageEndpointLimits {
        var limits = MessageEndpointLimits()
        if case .serial(_, let speed) = self { limits = .line(speed: speed) }
        // Shorter than the time in which an agent has to stop.
        limits.closeTime = 3_000_000_000
        return limits
    }
}

/// Creates the streams for an address.
struct Streams: MessageEndpointDelegate {
    let address: EndpointAddress
    let eventLoop: any EventLoop
    let logger: Logger
    var onClose: @Sendable () -> Void = {}

    func createConnection(for endpoint: MessageEndpoint) throws -> any MessageEndpointConnection { try connection() }

    func connection() throws -> StreamConnection {
        let name = address.shortDescription
        let onClose = onClose
        switch address {
        case .unix(let path):
            return StreamConnection(name, eventLoop: eventLoop, onClose: onClose) { connection in
                ClientBootstrap(group: connection.eventLoop)
                    .connectTimeout(.seconds(15))
                    .channelInitializer { channel in Self.prepare(channel, connection) }
                    .connect(unixDomainSocketPath: path)
            }
        case .exec(let arguments):
            let child = try ChildProgram(arguments, eventLoop: eventLoop, logger: logger)
            let ends: @Sendable () -> Void = {
                child.end()
                onClose()
            }
            return StreamConnection(name, eventLoop: eventLoop, onClose: ends) { connection in child.channel { StreamHandler(connection) } }
        case .serial(let device, let speed):
            let descriptor = try SerialDevice.open(device, speed: speed)
            // Closing a device waits for output that it cannot send: that output is discarded first.
            let flush: @Sendable () -> Void = { tcflush(descriptor, TCOFLUSH) }
            return StreamConnection(name, eventLoop: eventLoop, lingers: .milliseconds(200), beforeClose: flush, onClose: onClose) { connection in
                NIOPipeBootstrap(group: connection.eventLoop)
                    .channelInitializer { channel in Self.prepare(channel, connection) }
                    .takingOwnershipOfDescriptor(inputOutput: descriptor)
                    .map { $0 as any Channel }
            }
        }
    }

    static func prepare(_ channel: any Channel, _ connection: StreamConnection) -> EventLoopFuture<Void> {
        channel.eventLoop.makeCompletedFuture { try channel.pipeline.syncOperations.addHandler(StreamHandler(connection)) }
    }
}
