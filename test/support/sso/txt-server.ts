import { type DnsFault, type DnsServer, startDns } from "../dns-server.ts";

export type TxtServer = DnsServer & {
  /** TXT records by name, each in chunks, and CNAMEs by `CNAME <name>`; or what goes wrong. */
  records: Map<string, readonly (readonly string[])[] | DnsFault>;
};

/** A DNS server on this machine with TXT records, which nobody may keep. */
export const startTxtServer = async (): Promise<TxtServer> => {
  const records: TxtServer["records"] = new Map();
  const server = await startDns((name, kind) => {
    const found = records.get(kind === "CNAME" ? `CNAME ${name}` : name) ?? [];
    if (typeof found === "string") return found;
    return found.map((data) => (kind === "CNAME" ? { domain: data[0] } : { data }));
  });
  return { ...server, records };
};

let shared: Promise<TxtServer> | undefined;

/** The DNS server of this mocha process, which its server asks. */
export const sharedTxtServer = (): Promise<TxtServer> => (shared ??= startTxtServer());

after(async () => {
  await (await shared)?.close();
});
