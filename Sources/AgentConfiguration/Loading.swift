extension AgentSettings {
    /// Values from command line options that override the file's. Relative paths are relative to the current folder.
    package struct Overrides: Sendable, Equatable {
        /// `--data`
        package var data: String?
        /// `--plugins`
        package var plugins: String?

        package init(data: String? = nil, plugins: String? = nil) {
            self.data = data
            self.plugins = plugins
        }
    }

    /// Reads a configuration file.
    /// - Parameter environment: used for `${NAME}`; nil for the process's environment.
    /// - Throws: everything that is wrong with it, in the order of the file.
    package static func load(
        path: String, overrides: Overrides = Overrides(), environment: [String: String]? = nil
    ) throws(ConfigurationProblems) -> AgentSettings {
        try load(path, overrides, environment, only: nil)
    }

    /// Reads as much of a configuration file as is valid: for `check`, which reports everything at once.
    /// - Parameter environment: used for `${NAME}`; nil for the process's environment.
    /// - Returns: what could be read (nil for nothing), and what is wrong (nil for nothing).
    package static func examine(
        path: String, overrides: Overrides = Overrides(), environment: [String: String]? = nil
    ) -> (settings: AgentSettings?, problems: ConfigurationProblems?) {
        do throws(ConfigurationProblems) {
            return read(try bytes(of: path), path, Paths.folder(of: path), overrides, environment, only: nil)
        } catch { return (nil, error) }
    }

    /// Reads only what is needed to find a running agent and its data folder: `data`. The agent itself has the rest, including secrets
    /// that a command's user need not have; and a file that is being edited must not prevent its operator from using commands.
    /// - Throws: what is wrong with that part, or with the file as YAML.
    package static func location(
        path: String, overrides: Overrides = Overrides(), environment: [String: String]? = nil
    ) throws(ConfigurationProblems) -> AgentSettings {
        try load(path, overrides, environment, only: ["data"])
    }

    /// Reads only the listeners and where the agent is: the operator's user need not have the replicators' secrets.
    /// - Throws: what is wrong with that part, or with the file as YAML.
    package static func listeners(
        path: String, overrides: Overrides = Overrides(), environment: [String: String]? = nil
    ) throws(ConfigurationProblems) -> AgentSettings {
        try load(path, overrides, environment, only: ["data", "plugins", "databases", "listeners"])
    }

    /// Reads only the fleet's settings: a publisher need not have the other secrets.
    /// - Throws: what is wrong with that part, or with the file as YAML.
    package static func fleet(
        path: String, overrides: Overrides = Overrides(), environment: [String: String]? = nil
    ) throws(ConfigurationProblems) -> AgentSettings {
        try load(path, overrides, environment, only: ["data", "databases", "fleet"])
    }

    /// The data folder of a running agent whose file is no longer valid, for advice on how to reach it: what the file's line `data: FOLDER` says.
    /// - Returns: nil if there is no such line at the beginning of a line, or several.
    package static func likelyDataFolder(path: String) -> String? {
        guard let bytes = try? bytes(of: path) else { return nil }
        let lines = bytes.split(separator: UInt8(ascii: "\n")).filter { $0.starts(with: "data:".utf8) }
        guard lines.count == 1, let line = lines.first else { return nil }
        let (settings, problems) = read(Array(line), path, Paths.folder(of: path), Overrides(), nil, only: ["data"])
        return problems == nil ? settings?.data.value : nil
    }

    private static func load(
        _ path: String, _ overrides: Overrides, _ environment: [String: String]?, only keys: [String]?
    ) throws(ConfigurationProblems) -> AgentSettings {
        try parse(try bytes(of: path), path, Paths.folder(of: path), overrides, environment, only: keys)
    }

    private static func bytes(of path: String) throws(ConfigurationProblems) -> [UInt8] {
        do {
            // Pipes are allowed here: --config <(template).
            return try SmallFile.read(path, limit: Limits.fileBytes, regularOnly: false)
        } catch {
            let text = error.text(limit: Limits.fileBytes)
            throw ConfigurationProblems([ConfigurationProblem(file: path, line: 0, column: 0, message: "cannot be read: \(text)")])
        }
    }

    /// Reads a configuration that is already in memory.
    /// - Parameters:
    ///   - file: its name in problems.
    ///   - folder: absolute; relative paths resolve against it.
    package static func parse(
        _ bytes: [UInt8], file: String, folder: String, overrides: Overrides = Overrides(), environment: [String: String]? = nil
    ) throws(ConfigurationProblems) -> AgentSettings {
        try parse(bytes, file, folder, overrides, environment, only: nil)
    }

    private static func parse(
        _ bytes: [UInt8], _ file: String, _ folder: String, _ overrides: Overrides, _ environment: [String: String]?, only keys: [String]?
    ) throws(ConfigurationProblems) -> AgentSettings {
        let (settings, problems) = read(bytes, file, folder, overrides, environment, only: keys)
        if let problems { throw problems }
        // If there are no problems, there are settings.
        return settings ?? AgentSettings()
    }

    private static func read(
        _ bytes: [UInt8], _ file: String, _ folder: String, _ overrides: Overrides, _ environment: [String: String]?, only keys: [String]?
    ) -> (AgentSettings?, ConfigurationProblems?) {
        var problems = ProblemList(file: file)
        let root = YAMLReader.read(bytes, file: file, problems: &problems)
        // If the only errors are duplicate keys, there is a tree that can be checked further; after a syntax error there is none.
        if root == nil, let error = problems.error { return (nil, error) }

        var base = ConfigurationBase(file: file, folder: folder, overrides: overrides)
        base.named = root?.entries?.map(\.key) ?? []
        base.namesDatabases = root?.entries?.contains { $0.key == "databases" && $0.value.entries != nil } ?? false
        if var node = root {
            if let keys, let entries = node.entries { node.content = .mapping(entries.filter { keys.contains($0.key) }) }
            var expansion = Expansion(environment: environment, folder: folder)
            expansion.expand(&node, &problems)
            base.root = node
        }
        var (settings, error) = base.settings(problems)
        if error == nil, keys == nil, settings.fleet?.acceptConfig.isEmpty == false { settings.base = base }
        return (settings, error)
    }

    /// The configuration that `nightjar run` uses without a file: data in `./nightjar-data`, plugins in `./plugins` if that folder
    /// exists, the database `main`, and a listener on 127.0.0.1:4984. That listener uses plain HTTP: it cannot be reached from other
    /// machines, and no client would trust a certificate generated for it.
    package static func embeddedDefault(data: String? = nil, plugins: String? = nil) -> AgentSettings {
        var settings = AgentSettings()
        var database = DatabaseSettings()
        database.name = Located("main")
        settings.databases = [database]
        var listener = ListenerSettings()
        listener.name = Located("default")
        listener.databases = [Located("main")]
        listener.interface = Located("127.0.0.1")
        listener.disableTLS = Located(true)
        settings.listeners = [listener]
        settings.fillPaths(Overrides(data: data, plugins: plugins))
        return settings
    }

    fileprivate mutating func fillPaths(_ overrides: Overrides) {
        if let path = overrides.data { data = Located(Paths.resolve(path, in: Paths.currentFolder)) }
        if data.value.isEmpty { data = Located(Paths.resolve("nightjar-data", in: folder)) }
        if let path = overrides.plugins { plugins = Located(Paths.resolve(path, in: Paths.currentFolder)) }
        if plugins == nil {
            let beside = Paths.resolve("plugins", in: folder)
            if Paths.isFolder(beside) { plugins = Located(beside) }
        }
    }
}

extension ConfigurationBase {
    /// - Parameter problems: problems found earlier.
    func settings(_ problems: ProblemList) -> (AgentSettings, ConfigurationProblems?) {
        var settings = AgentSettings()  // an empty file means that everything has its default
        var problems = problems
        if let root { problems.noteExpansions(in: root) }
        var reading = Reading(file: file, folder: folder, problems: problems)
        if let root, let read = AgentSettings.read(root, &reading) { settings = read }
        settings.check(references: &reading)
        settings.namesDatabases = namesDatabases
        settings.unread = Set(
            (settings.data.value.isEmpty && named.contains("data") && overrides.data == nil ? ["data"] : [])
                + (settings.plugins == nil && named.contains("plugins") && overrides.plugins == nil ? ["plugins"] : []))
        settings.file = file
        settings.folder = folder
        settings.fillPaths(overrides)
        return (settings, reading.problems.error)
    }
}
