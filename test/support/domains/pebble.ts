import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { Agent, get } from "node:https";
import { join } from "node:path";
import { type DnsFault, type DnsServer, type RecordKind, startDns } from "../dns-server.ts";
import { eventually } from "../eventually.ts";
import { freePort, temporaryDir } from "../processes/process.ts";
import { selfSigned } from "../webhooks/receiver.ts";

/** Whether this machine has Pebble, the certificate authority for tests of Let's Encrypt. */
export const hasPebble = (): boolean => {
  try {
    execFileSync("which", ["pebble"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
};

export type Pebble = {
  directoryUrl: string;
  /** The authority that the directory's own certificate is checked by. */
  caFile: string;
  /** The root of what it issues, PEM; another one each time it is started. */
  root(): Promise<string>;
  /** What it has printed: each order, check and certificate is a line. */
  output(): string;
  stop(): Promise<void>;
};

type Options = {
  /** Where it looks for answers to its challenges, and whom it asks for names. */
  httpPort: number;
  dns: string;
};

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

const read = (url: string, ca: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const request = get(url, { agent: new Agent({ ca }) }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () => resolve(Buffer.concat(chunks).toString()));
    });
    request.on("error", reject);
  });

/** Starts Pebble, which is strict: it refuses a fifth of all nonces, to see whether clients try again. */
export const startPebble = async ({ httpPort, dns }: Options): Promise<Pebble> => {
  const directory = await temporaryDir();
  const { key, cert } = selfSigned({ names: ["localhost"] });
  const [port, managementPort] = [await freePort(), await freePort()];
  const file = (name: string): string => join(directory.path, name);
  await writeFile(file("key.pem"), key);
  await writeFile(file("cert.pem"), cert);
  const pebble = {
    listenAddress: `127.0.0.1:${port}`,
    managementListenAddress: `127.0.0.1:${managementPort}`,
    certificate: file("cert.pem"),
    privateKey: file("key.pem"),
    httpPort,
    tlsPort: await freePort(),
    ocspResponderURL: "",
    externalAccountBindingRequired: false,
    certificateValidityPeriod: 90 * 86_400,
  };
  await writeFile(file("config.json"), JSON.stringify({ pebble }));
  const child = spawn("pebble", ["-config", file("config.json"), "-dnsserver", dns, "-strict"], {
    env: { ...process.env, PEBBLE_VA_NOSLEEP: "1", PEBBLE_WFE_NONCEREJECT: "20" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  running.add(child);
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const directoryUrl = `https://localhost:${port}/dir`;
  await eventually(() => read(directoryUrl, cert), { label: "Pebble answers" });
  return {
    directoryUrl,
    caFile: file("cert.pem"),
    root: () => read(`https://localhost:${managementPort}/roots/0`, cert),
    output: () => output,
    stop: async () => {
      child.kill();
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
      running.delete(child);
      await directory.remove();
    },
  };
};

/** Values of records, of CAA such as `0 issue "ca.example.com"`; or what the servers of the name do. */
type Records = readonly string[] | DnsFault;

export type DomainDns = DnsServer & {
  /** Sets the records of a name and kind; undefined: there are none. */
  set(name: string, kind: RecordKind, records: Records | undefined): void;
  /** Names that were asked for. */
  asked: string[];
};

const dataOf = (kind: RecordKind, value: string): object => {
  if (kind === "CNAME") return { domain: value };
  if (kind === "CAA") {
    const [, flags, tag = "", text = ""] = /^(\d+) (\S*) "(.*)"$/.exec(value) ?? [];
    return { flags: Number(flags), tag, value: text };
  }
  return kind === "TXT" ? { data: [value] } : { address: value };
};

/** A DNS server on this machine, whose answers nobody may keep. */
export const startDomainDns = async (): Promise<DomainDns> => {
  const all = new Map<string, Records>();
  const asked: string[] = [];
  const server = await startDns((question, kind) => {
    const name = question.toLowerCase();
    asked.push(name);
    const found = kind ? (all.get(`${kind} ${name}`) ?? []) : [];
    return typeof found === "string" ? found : found.map((value) => dataOf(kind!, value));
  });
  return {
    ...server,
    set: (name, kind, records) => {
      if (records === undefined) all.delete(`${kind} ${name}`);
      else all.set(`${kind} ${name}`, records);
    },
    asked,
  };
};
