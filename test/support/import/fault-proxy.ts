import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** What to do to a request: pass it on, lose it, lose its answer, or answer in the server's place. */
export type Fault =
  | "pass"
  | "lose request"
  | "lose answer"
  | { status: number; headers?: Record<string, string>; body?: string };

export type SentRequest = { atMs: number; events: Record<string, unknown>[] };

/**
 * A proxy in front of a running server that does what networks do.
 * @param plan the fault of request n, counted from 1
 */
export const startFaultProxy = async (target: string, plan: (n: number) => Fault = () => "pass") => {
  const requests: SentRequest[] = [];
  const server = createServer((request, response) => {
    const answer = async (): Promise<void> => {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      const body = Buffer.concat(parts);
      requests.push({ atMs: performance.now(), ...(JSON.parse(body.toString()) as { events: [] }) });
      const fault = plan(requests.length);
      if (fault === "lose request") return void request.socket.destroy();
      if (typeof fault === "object") {
        response.writeHead(fault.status, fault.headers).end(fault.body ?? "");
        return;
      }
      const { host: _host, connection: _connection, ...headers } = request.headers;
      const reply = await fetch(`${target}${request.url}`, {
        method: request.method ?? "POST",
        headers: headers as Record<string, string>,
        body,
      });
      const text = await reply.text();
      if (fault === "lose answer") return void request.socket.destroy();
      const { "content-type": type, "retry-after": retryAfter } = Object.fromEntries(reply.headers);
      const passed = {
        ...(type && { "content-type": type }),
        ...(retryAfter && { "retry-after": retryAfter }),
      };
      response.writeHead(reply.status, passed).end(text);
    };
    answer().catch((error: unknown) => response.destroy(error as Error));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    stop: async (): Promise<void> => {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
};
