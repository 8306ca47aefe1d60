import AgentConfiguration
import Glibc
import Testing

/// Reads a text as `/etc/nightjar/nightjar.yaml`.
func settings(
    _ text: String, folder: String = "/etc/nightjar", environment: [String: String] = [:]
) throws(ConfigurationProblems) -> AgentSettings {
    try AgentSettings.parse(Array(text.utf8), file: "nightjar.yaml", folder: folder, environment: environment)
}

/// All problems of a text; none if it is right.
func problems(_ text: String, folder: String = "/etc/nightjar", environment: [String: String] = [:]) -> [ConfigurationProblem] {
    do {
        _ = try settings(text, folder: folder, environment: environment)
        return []
    } catch {
        return error.problems
    }
}

/// A folder that is removed at the end.
struct TemporaryFolder: ~Copyable {
    let path: String

    init() throws {
        var template = Array("/tmp/nightjar-configuration-XXXXXX".utf8CString)
        try #require(mkdtemp(&template) != nil)
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    func write(_ bytes: [UInt8], to name: String) throws {
        let file = try #require(fopen("\(path)/\(name)", "w"))
        defer { fclose(file) }
        #expect(fwrite(bytes, 1, bytes.count, file) == bytes.count)
    }

    func write(_ text: String, to name: String) throws { try write(Array(text.utf8), to: name) }

    func makeFolder(_ name: String) { #expect(mkdir("\(path)/\(name)", 0o700) == 0) }

    deinit {
        // Flat: files and empty folders.
        if let entries = opendir(path) {
            while let entry = readdir(entries) {
                let name = withUnsafePointer(to: &entry.pointee.d_name) { $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) } }
                if name != ".", name != ".." { _ = remove("\(path)/\(name)") }
            }
            closedir(entries)
        }
        _ = rmdir(path)
    }
}

/// The sample of the reference, with its dots filled in.
let sample = """
    data: /var/lib/nightjar
    plugins: /etc/nightjar/plugins
    admin: { address: 127.0.0.1, port: 4985 }     # dashboard, admin API, /metrics; also on DATA/admin.sock
    log: { level: info, format: text, domains: { replicator: debug } }
    databases:
      sensors:
        collections: [ _default, plant.readings ]  # scope.collection; _default always exists
        delta_sync: true
        conflict_resolver: merge-fields            # PLUGIN or { plugin: …, params: {…}, shadow: … }
        history: { revisions: 50, conflicts: 1000 }
    listeners:
      - name: edge
        databases: [ sensors ]
        port: 4984                                 # 0: any free port, reported in status
        interface: eth0                            # name or address; absent: all
        disable_tls: false
        identity: plant-gateway
        authenticator: { plugin: password-file, params: { file: users.txt } }
        client_certificates: none                  # none | request | require ; roots: [F…]
        read_only: false
        delta_sync: true
        push_filter: { plugin: by-type, params: { types: [ reading, 3, null ], strict: true } }
        pull_filter: skip-drafts
        max_connections: 1000
    replicators:
      - name: hub
        database: sensors
        target: wss://hub.example.com:4984/sensors # ws wss http https exec: unix: serial:
        type: push_and_pull                        # push | pull | push_and_pull
        continuous: true
        collections:                               # absent: the default collection; per collection:
          plant.readings: { push_filter: by-owner, pull_filter: { plugin: no-deletes, shadow: skip-drafts }, document_ids: [ a, "1" ], channels: [ north ], conflict_resolver: { plugin: latest-wins, params: { field: at }, shadow: local-wins } }
        authenticator: { username: u, password: "${HUB_PASSWORD}" }
        challenge_auth: false
        headers: { X-Site: plant-7 }
        accept_only_self_signed_server_certificate: false
        pinned_server_certificate: hub.pem         # exact match against any certificate of the chain
        network_interface: eth1
        heartbeat: 300                             # seconds
        max_attempts: 0                            # 0: default (9 one-shot, unlimited continuous); 1: no retry
        max_attempt_wait_time: 300                 # seconds; 0: default; negative: error
        enable_auto_purge: true
        delta_sync: true
    plugin_limits:
      by-owner: { memory: 32MiB, cpu_ms: 20, instructions: 5000000, resolver_cpu_ms: 500, resolver_instructions: 90000000, log_lines: 10 }

    """
let sampleEnvironment = ["HUB_PASSWORD": "hunter2"]
