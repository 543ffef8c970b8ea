// PGlite alone on a data directory: what the engine needs by itself.
import { createRequire } from "node:module";

type Engine = { query(text: string): Promise<unknown>; close(): Promise<void> };
type Module = { PGlite: new (dataDir: string) => Engine };

// The very copy that the server's driver uses.
const driver = createRequire(import.meta.resolve("@mikro-orm/pglite"));
const { PGlite } = driver("@electric-sql/pglite") as Module;
const database = new PGlite(process.argv[2] ?? "memory://");
await database.query("select 1");
process.send?.("ready");
process.on("SIGTERM", () => void database.close().finally(() => process.exit(0)));
process.on("disconnect", () => process.exit(0));
