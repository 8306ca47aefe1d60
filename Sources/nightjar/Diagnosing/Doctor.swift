import Agent
import AgentConfiguration
import Documents
import DocumentStore
import Encodings
import Environment
import Glibc
import Logging
import NIOCore
import PluginHost
import TLS

/// `nightjar doctor`: examines everything that an agent needs, one thing after the other, whether or not an agent is running.
struct Doctor: Sendable {
    let settings: AgentSettings
    let environment: Environment
    let group: any EventLoopGroup
    /// Whether a running agent holds the data folder.
    let isRunning: Bool
    /// What the agents of this configuration that run have bound, on whatever data folder.
    let boundPorts: BoundPorts

    enum BoundPorts: Sendable {
        /// No such agent runs.
        case none
        /// The ports of its listeners. Whether its next start would get the admin port, it says itself.
        case ofListeners(Set<Int>)
        /// It does not say.
        case unknown
    }

    init(settings: AgentSettings, environment: Environment, group: any EventLoopGroup, isRunning: Bool, boundPorts: BoundPorts) {
        self.settings = settings
        self.environment = environment
        self.group = group
        self.isRunning = isRunning
        self.boundPorts = boundPorts
    }

    /// The configuration and the plugins, as `check` examines them. Without settings nothing else can be examined.
    static func configuration(
        _ settings: AgentSettings?, _ found: ConfigurationProblems?, file: String?, _ environment: Environment
    ) async -> [Finding] {
        guard let settings else {
            return (found?.problems.map(\.description) ?? []).map { Finding("configuration", .wrong, $0, mend: "fix it in the file, then nightjar check; \(ConfigurationProblems.wayAround(file))") }
        }
        let report: ConfigurationCheck.Report
        // Files that only the agent's user can read look broken to others, and nightjar check reports no more when run as that user.
        let other = settings.knowsDataFolder ? AgentUser.adviceForOtherUsers(data: settings.data.value) : nil
        do { report = try await ConfigurationCheck.run(settings, environment, found: found) } catch {
            return [Finding("configuration", .wrong, "\(error)", mend: other ?? "nightjar check")]
        }
        var findings = report.problems.map { Finding("configuration", .wrong, $0, mend: report.mends[$0] ?? other ?? "fix it there, then nightjar check and nightjar reload") }
        findings += report.advice.map { Finding("configuration", .warning, $0, mend: report.mends[$0] ?? "correct it, unless it is meant") }
        findings += report.exposed.map { error -> Finding in
            let advice = error.advice.hasPrefix("run: ") ? String(error.advice.dropFirst(5)) : error.advice
            return Finding("configuration", .warning, "\(error.path): \(error.reason)", mend: advice)
        }
        if findings.isEmpty {
            let file = settings.file.map { "\($0): " } ?? "no file, the built-in default: "
            findings.append(
                Finding(
                    "configuration", .ok,
                    file + "\(Plural.count(settings.databases.count, "database")), \(Plural.count(settings.listeners.count, "listener")), "
                        + "\(Plural.count(settings.replicators.count, "replicator"))"))
        }
        if !report.plugins.isEmpty {
            findings.append(
                Finding("plugins", .ok, "\(Plural.count(report.plugins.count, "plugin loads and passes its", "plugins load and pass their")) tests: \(report.plugins.map(\.name).joined(separator: ", "))"))
        } else if settings.plugins == nil {
            findings.append(Finding("plugins", .ok, "there is no plugins folder, and nothing uses one"))
        }
        return findings
    }

    /// Everything except the store and the agent, which only the command can reach.
    ///
    /// - Parameter peers: whether to resolve names and make connections.
    func examine(peers: Bool = true) async -> [Finding] {
        var findings = clock() + disk()
        findings += certificates()
        findings += await ports(looksUpNames: peers)
        for replicator in settings.replicators {
            let silent = Logger(label: "nightjar.doctor") { _ in SwiftLogNoOpLogHandler() }
            let security = Result { try ReplicatorBuilding.security(replicator, dataFolder: settings.data.value, environment: environment, logger: silent) }
            if peers { findings += await peer(replicator, security) }
            // Last, because then the server's certificate is known. What prevents TLS has been reported with the configuration.
            if let security = try? security.get() { findings += judge(security, "replicator \(replicator.name.value)") }
        }
        return findings
    }

    // MARK: - Time

    private func clock() -> [Finding] {
        let now = environment.time.wallSeconds()
        let shown = Timestamp.format(now)
        let mend = "set the clock, and have it kept right: systemctl enable --now systemd-timesyncd, or chrony"
        if now < StoreLimits.earliestSeconds {
            return [Finding("time", .wrong, "the clock says \(shown): certificates seem not valid yet, and documents get wrong times", mend: mend)]
        }
        let isKept = System.keepsClock
        var file = stat()
        for database in settings.databases where stat("\(settings.data.value)/\(database.name.value).nightjar/db.sqlite3", &file) == 0 {
            let written = Int64(file.st_mtim.tv_sec)
            guard written > now + 300 else { continue }
            let text = "the clock says \(shown), and database \(database.name.value) was written at \(Timestamp.format(written))"
            guard isKept else { return [Finding("time", .wrong, text, mend: mend)] }
            return [Finding("time", .warning, "\(text): it is kept right now, and was ahead then", mend: "nightjar explain versions_ahead")]
        }
        if !isKept {
            return [Finding("time", .warning, "the clock says \(shown), and nothing keeps it right", mend: mend)]
        }
        return [Finding("time", .ok, "the clock says \(shown) and is kept right")]
    }

    // MARK: - Disk

    private func disk() -> [Finding] {
        let data = settings.data.value
        if let obstacle = Self.obstacle(toSocketIn: data) { return [obstacle] }
        // What can never be a folder has been reported with the configuration.
        if ConfigurationCheck.obstacle(toMaking: data)?.isCertain == true { return [] }
        var facts = stat()
        guard stat(data, &facts) == 0 else {
            let number = errno
            if number == ENOENT {
                guard !isRunning else {
                    return [
                        Finding(
                            "disk", .wrong, "the data folder \(data) is gone under the running agent",
                            mend: "mount its disk again, or put it back; then restart the agent")
                    ]
                }
                if let obstacle = Self.obstacle(toMaking: data) { return [obstacle] }
                return [
                    Finding(
                        "disk", .warning, "the data folder \(data) does not exist",
                        mend: "before the first start there is nothing to do: nightjar run creates it. If an agent has run here before, mount the disk or correct data "
                            + "(--data) first: a start would create an empty folder")
                ]
            }
            return [
                Finding(
                    "disk", .wrong, "the data folder \(data) cannot be looked at: \(String(cString: strerror(number)))",
                    mend: AgentUser.remedy(number, at: data, data: data, who: "this command") ?? "give the agent's user access to it and to the folders above it")
            ]
        }
        // What is not a folder has been reported with the configuration.
        guard facts.st_mode & S_IFMT == S_IFDIR else { return [] }
        var findings = ownFiles(in: data)
        if facts.st_mode & 0o077 != 0 {
            findings.append(
                Finding(
                    "disk", .warning, "other users can access the data folder \(data) (permissions 0\(String(facts.st_mode & 0o7777, radix: 8)), and 0700 is expected)",
                    mend: "chmod 700 \(data)"))
        }
        if facts.st_uid != geteuid(), geteuid() != 0 {
            findings.append(
                Finding("disk", .warning, "the data folder \(data) belongs to user \(facts.st_uid), and this is user \(geteuid())", mend: AgentUser.advice(data: data)))
        }
        if access(data, W_OK) != 0 {
            let number = errno
            findings.append(
                Finding(
                    "disk", .wrong, "the data folder \(data) cannot be written: \(String(cString: strerror(number)))",
                    mend: AgentUser.remedy(number, at: data, data: data, who: "this command") ?? "chown it to the agent's user; is the disk mounted read-only?"))
        }
        guard let space = DiskSpace(of: data) else { return findings }
        let text = "\(space.free >> 20) MiB of \(space.total >> 20) MiB free at \(data)"
        if space.isFull {
            findings.append(Finding("disk", .wrong, text, mend: "make room: nothing can be stored"))
        } else if space.isScarce {
            findings.append(Finding("disk", .warning, text, mend: "make room, or nightjar compact"))
        } else {
            findings.append(Finding("disk", .ok, text))
        }
        return findings
    }

    // MARK: - Certificates

    private func certificates() -> [Finding] {
        let store = KeyStore(dataFolder: settings.data.value, time: environment.time)
        var findings: [Finding] = []
        for listener in settings.listeners where listener.usesTLS {
            let name = "listener \(listener.name.value)"
            if let identity = listener.identity { findings.append(judge(identity, name, store)) } else {
                findings.append(Finding("certificate", .ok, "\(name): its own self-signed one, which the agent makes and renews"))
            }
            findings += early(roots: listener.roots, name)
            // Unreadable ones have been reported with the configuration.
            let roots = listener.roots.flatMap { (try? CertificateFile.read($0.value)) ?? [] }
            findings += CertificateEnd.ofAuthorities(roots, now: environment.time.wallSeconds()).map { Self.finding($0, name) }
        }
        for replicator in settings.replicators {
            if let identity = replicator.authenticator?.identity { findings.append(judge(identity, "replicator \(replicator.name.value)", store)) }
            if !replicator.ignoresRoots { findings += early(roots: replicator.roots, "replicator \(replicator.name.value)") }
        }
        return findings
    }

    /// The end of a certificate, in the words of status.
    private static func finding(_ end: CertificateEnd, _ name: String) -> Finding {
        Finding("certificate", end.isGrave ? .wrong : .warning, "\(name): \(end.text)", mend: end.remedy)
    }

    /// The certificates by which a replicator judges its server, and the server's own if it was met.
    private func judge(_ security: ReplicatorSecurity, _ name: String) -> [Finding] {
        let now = environment.time.wallSeconds()
        var findings = security.ends(now: now).map { Self.finding($0, name) }
        if let met = security.server?.certificate, !security.checksDates || CertificateEnd(of: met, as: .server, now: now) == nil {
            let until = "until \(Timestamp.format(met.notAfter))\(security.checksDates ? "" : ", which is not checked")"
            findings.append(Finding("certificate", .ok, "\(name): the server's certificate \(met.subject), \(until)"))
        }
        return findings
    }

    /// Files of authorities of which none is valid yet.
    private func early(roots: [Located<String>], _ name: String) -> [Finding] {
        roots.flatMap { TLSFileCheck.roots($0.value, now: environment.time.wallSeconds()) }.filter { $0.kind == .notYetValid }.map {
            Finding("certificate", .wrong, "\(name) roots: \($0)", mend: Self.mendEarly)
        }
    }

    private func judge(_ reference: IdentityReference, _ name: String, _ store: KeyStore) -> Finding {
        do {
            let source = try IdentitySource(try IdentitySetting(reference), store: store)
            let (leaf, now) = (source.current.leaf, environment.time.wallSeconds())
            if let end = source.end(now: now), leaf.notBefore <= now || end.expiredAt != nil { return Self.finding(end, name) }
            let what = "\(name): \(leaf.subject)"
            if leaf.notBefore > now {
                return Finding("certificate", .wrong, "\(what): it is not valid before \(Timestamp.format(leaf.notBefore)), and now it is \(Timestamp.format(now))", mend: Self.mendEarly)
            }
            return Finding("certificate", .ok, "\(what), until \(Timestamp.format(leaf.notAfter))")
        } catch {
            return Finding("certificate", .wrong, "\(name): \(error)", mend: "fix that file, or nightjar identity create")
        }
    }

    /// The advice for a certificate that is not valid yet.
    private static let mendEarly = "is this machine's clock right? If it is, wait until then, or have the certificate reissued: peers refuse it until then"
}
