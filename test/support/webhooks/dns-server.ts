import { once } from "node:events";
import DNS from "dns2";

type Family = "A" | "AAAA";
/** Addresses, or what goes wrong. */
type DnsAnswer = readonly string[] | "NXDOMAIN" | "SERVFAIL" | "SILENCE";
/** `count`: how often this name was asked for this family, from 1. */
type Zone = (name: string, family: Family, count: number) => DnsAnswer;

export type DnsServer = {
  /** With its port. */
  address: string;
  /** `name family`, as they were asked. */
  questions: string[];
  close(): Promise<void>;
};

const { Packet } = DNS;

/** A DNS server on this machine that answers as `zone` says; nothing it says may be kept (TTL 0). */
export const startDnsServer = async (zone: Zone): Promise<DnsServer> => {
  const questions: string[] = [];
  const server = DNS.createUDPServer((request, send) => {
    const [question] = request.questions;
    if (!question) return;
    const family: Family = question.type === Packet.TYPE.AAAA ? "AAAA" : "A";
    const asked = `${question.name} ${family}`;
    questions.push(asked);
    const found = zone(question.name, family, questions.filter((one) => one === asked).length);
    if (found === "SILENCE") return;
    if (typeof found === "string") {
      void send(Packet.createErrorResponseFromRequest(request, Packet.RCODE[found]));
      return;
    }
    const response = Packet.createResponseFromRequest(request);
    for (const address of found)
      response.answers.push(Packet.createResourceFromQuestion(question, { address, ttl: 0 }));
    void send(response);
  });
  await server.listen(0, "127.0.0.1");
  const { port } = server.address();
  return {
    address: `127.0.0.1:${port}`,
    questions,
    close: async () => {
      server.close();
      await once(server, "close");
    },
  };
};
