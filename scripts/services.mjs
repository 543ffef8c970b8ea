// Which of the services of cluster mode answer, and where.
import { connect } from "node:net";

const ANSWER_TIMEOUT_MS = 2_000;

/** The first bytes that a server answers to `hello`, or "" when it does not. */
const ask = (url, defaultPort, hello) =>
  new Promise((resolve) => {
    const { hostname, port } = new URL(url);
    const socket = connect({ host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || defaultPort) });
    const end = (answer) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(ANSWER_TIMEOUT_MS);
    socket.once("connect", () => socket.write(hello));
    socket.once("data", (data) => end(data.toString("latin1")));
    for (const event of ["timeout", "error", "close"]) socket.once(event, () => end(""));
  });

/** "May we speak TLS?" Every PostgreSQL answers with one letter, before any password. */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]);

const SERVICES = [
  {
    name: "PostgreSQL",
    variable: "DATABASE_URL",
    url: process.env.DATABASE_URL || "postgres://postgres@127.0.0.1:5432/postgres",
    answers: async (url) => /^[SN]/.test(await ask(url, 5432, SSL_REQUEST)),
  },
  {
    name: "Redis",
    variable: "REDIS_URL",
    url: process.env.REDIS_URL || "redis://127.0.0.1:6379",
    answers: async (url) => url.startsWith("rediss:") || /^[+-]/.test(await ask(url, 6379, "PING\r\n")),
  },
];

/** The addresses as environment variables, and a sentence for each service that does not answer. */
export const findServices = async () => {
  const found = { variables: {}, missing: [] };
  for (const { name, variable, url, answers } of SERVICES) {
    found.variables[variable] = url;
    if (!(await answers(url)))
      found.missing.push(`${name} does not answer at ${new URL(url).host} (${variable})`);
  }
  return found;
};
