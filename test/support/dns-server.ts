import { once } from "node:events";
import DNS from "dns2";

const { Packet } = DNS;
const KINDS = { A: 1, CNAME: 5, TXT: 16, AAAA: 28, CAA: 257 } as const;
export type RecordKind = keyof typeof KINDS;
/** What goes wrong. */
export type DnsFault = "NXDOMAIN" | "SERVFAIL" | "SILENCE";

export type DnsServer = {
  /** With its port. */
  address: string;
  close(): Promise<void>;
};

/** A DNS server on this machine; nothing it says may be kept (TTL 0). */
export const startDns = async (
  dataOf: (name: string, kind: RecordKind | undefined) => readonly object[] | DnsFault,
): Promise<DnsServer> => {
  const server = DNS.createUDPServer((request, send) => {
    const [question] = request.questions;
    if (!question) return;
    const kind = (Object.keys(KINDS) as RecordKind[]).find((one) => KINDS[one] === question.type);
    const found = dataOf(question.name, kind);
    if (found === "SILENCE") return;
    if (typeof found === "string")
      return void send(Packet.createErrorResponseFromRequest(request, Packet.RCODE[found]));
    const response = Packet.createResponseFromRequest(request);
    for (const data of found)
      response.answers.push(Packet.createResourceFromQuestion(question, { ...data, ttl: 0 }));
    void send(response);
  });
  await server.listen(0, "127.0.0.1");
  return {
    address: `127.0.0.1:${server.address().port}`,
    close: async () => {
      server.close();
      await once(server, "close");
    },
  };
};
