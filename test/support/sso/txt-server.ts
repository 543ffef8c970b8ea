import { once } from "node:events";
import DNS from "dns2";

export type TxtServer = {
  /** With its port. */
  address: string;
  /** TXT records by name, each in chunks, and CNAMEs by `CNAME <name>`; or what goes wrong. */
  records: Map<string, readonly (readonly string[])[] | "SERVFAIL" | "SILENCE">;
  close(): Promise<void>;
};

const { Packet } = DNS;
const CNAME = 5;

/** A DNS server on this machine with TXT records, which nobody may keep. */
export const startTxtServer = async (): Promise<TxtServer> => {
  const records: TxtServer["records"] = new Map();
  const server = DNS.createUDPServer((request, send) => {
    const [question] = request.questions;
    if (!question) return;
    const isCname = question.type === CNAME;
    const found = records.get(`${isCname ? "CNAME " : ""}${question.name}`) ?? [];
    if (found === "SILENCE") return;
    if (found === "SERVFAIL")
      return void send(Packet.createErrorResponseFromRequest(request, Packet.RCODE.SERVFAIL));
    const response = Packet.createResponseFromRequest(request);
    for (const data of found) {
      const parts = { ...(isCname ? { domain: data[0] } : { data }), ttl: 0 };
      response.answers.push(Packet.createResourceFromQuestion(question, parts as never));
    }
    void send(response);
  });
  await server.listen(0, "127.0.0.1");
  return {
    address: `127.0.0.1:${server.address().port}`,
    records,
    close: async () => {
      server.close();
      await once(server, "close");
    },
  };
};

let shared: Promise<TxtServer> | undefined;

/** The DNS server of this mocha process, which its server asks. */
export const sharedTxtServer = (): Promise<TxtServer> => (shared ??= startTxtServer());

after(async () => {
  await (await shared)?.close();
});
