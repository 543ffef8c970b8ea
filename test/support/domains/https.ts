import {
  type ClientRequest,
  type IncomingHttpHeaders,
  request as requestPlain,
  type RequestOptions,
} from "node:http";
import { request } from "node:https";
import { connect, type TLSSocket } from "node:tls";

export type Answer = { status: number; headers: IncomingHttpHeaders; body: string; serial: string };

type Credentials = { key?: string | undefined; token?: string | undefined };

/** How a request goes to this machine: as which host, whatever its port and the name of its connection. */
export type Call = Credentials & {
  port: number;
  host: string;
  path?: string;
  method?: string;
  /** A form is sent as one, anything else as JSON. */
  body?: object;
  headers?: Record<string, string>;
};

/** A request over TLS. */
export type TlsCall = Call & {
  /** What the client asks for in the handshake; default: the host. "" for nothing. */
  servername?: string;
  /** The root that it trusts, PEM. */
  ca: string;
};

const optionsOf = ({
  port,
  host,
  path = "/health/live",
  method = "GET",
  key,
  token,
  body,
  headers = {},
}: Call): RequestOptions => ({
  host: "127.0.0.1",
  port,
  path,
  method,
  agent: false,
  timeout: 10_000,
  headers: {
    host,
    "content-type":
      body instanceof URLSearchParams ? "application/x-www-form-urlencoded" : "application/json",
    ...(key === undefined ? {} : { "x-api-key": key }),
    ...headers,
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
  },
});

const answerOf = (sent: ClientRequest, body: object | undefined): Promise<Answer> =>
  new Promise((resolve, reject) => {
    sent.on("response", (response) => {
      const socket = response.socket as Partial<TLSSocket>;
      const serial = socket.getPeerX509Certificate?.()?.serialNumber ?? "";
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: Buffer.concat(chunks).toString(),
          serial,
        }),
      );
    });
    sent.on("timeout", () => sent.destroy(new Error("no answer")));
    sent.on("error", reject);
    sent.end(body instanceof URLSearchParams ? body.toString() : body && JSON.stringify(body));
  });

/** One request over TLS to a port of this machine. Rejects where the handshake fails. */
export const overTls = (call: TlsCall): Promise<Answer> => {
  const { ca, servername = call.host, body } = call;
  return answerOf(request({ ...optionsOf(call), ca, servername }), body);
};

/** One request to a port of this machine by plain HTTP, with a Host header of its own. */
export const overHttp = (call: Call): Promise<Answer> => answerOf(requestPlain(optionsOf(call)), call.body);

/** Whether a handshake for this name comes about, whatever certificate there is. */
export const shakesHands = (port: number, servername: string): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port, servername, rejectUnauthorized: false });
    const end = (value: boolean): void => {
      socket.destroy();
      resolve(value);
    };
    socket.once("secureConnect", () => end(true));
    socket.once("error", () => end(false));
    socket.once("close", () => end(false));
  });
