import { once } from "node:events";
import DNS from "dns2";

const { Packet } = DNS;
const KINDS = { A: 1, CNAME: 5, TXT: 16, AAAA: 28, CAA: 257 } as const;
type Kind = keyof typeof KINDS;
/** Values of records, of CAA such as `0 issue "ca.example.com"`; or what the servers of the name do. */
type Records = readonly string[] | "SERVFAIL" | "SILENCE";

export type DomainDns = {
  /** With its port. */
  address: string;
  /** Sets the records of a name and kind; undefined: there are none. */
  set(name: string, kind: Kind, records: Records | undefined): void;
  /** Names that were asked for. */
  asked: string[];
  close(): Promise<void>;
};

const dataOf = (kind: Kind, value: string): object => {
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
  const server = DNS.createUDPServer((request, send) => {
    const [question] = request.questions;
    const name = question?.name.toLowerCase() ?? "";
    const kind = (Object.keys(KINDS) as Kind[]).find((one) => KINDS[one] === Number(question?.type));
    asked.push(name);
    const found = kind ? (all.get(`${kind} ${name}`) ?? []) : [];
    if (!question || found === "SILENCE") return;
    if (found === "SERVFAIL")
      return void send(Packet.createErrorResponseFromRequest(request, Packet.RCODE.SERVFAIL));
    const response = Packet.createResponseFromRequest(request);
    for (const value of found) {
      const parts = { ...dataOf(kind!, value), ttl: 0 };
      response.answers.push(Packet.createResourceFromQuestion(question, parts));
    }
    void send(response);
  });
  await server.listen(0, "127.0.0.1");
  return {
    address: `127.0.0.1:${server.address().port}`,
    set: (name, kind, records) => {
      if (records === undefined) all.delete(`${kind} ${name}`);
      else all.set(`${kind} ${name}`, records);
    },
    asked,
    close: async () => {
      server.close();
      await once(server, "close");
    },
  };
};
