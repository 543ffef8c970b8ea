import { createHash, randomInt, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { listen } from "../http/listen.ts";
import { PERSON_HEADER } from "./openid-provider.ts";
import { startApp } from "../app/app.ts";
import { madeOnce } from "../made.ts";
import { startOAuthServer } from "./oauth.ts";

export type GithubPerson = {
  id: number;
  name: string | null;
  /** What the profile shows, proved or not. */
  email: string | null;
  emails: { email: string; primary: boolean; verified: boolean; visibility: string | null }[];
};

export type FakeGithub = {
  url: string;
  apiUrl: string;
  clientId: string;
  clientSecret: string;
  /** By login name. */
  people: Map<string, GithubPerson>;
  /** Makes the API answer so, for trouble. */
  trouble: { api?: { status: number; body: string } };
  close(): Promise<void>;
};

type Grant = { login: string; challenge: string; redirectUri: string };
type Handler = (request: IncomingMessage, response: ServerResponse, url: URL) => void | Promise<void>;

/** GitHub says what is wrong with a code in a 200. */
const refuse = (error: string, description: string): Record<string, string> => ({
  error,
  error_description: description,
  error_uri: "https://docs.github.com/apps/managing-oauth-apps/troubleshooting",
});

const json = (response: ServerResponse, status: number, body: unknown): void => {
  response.writeHead(status, { "Content-Type": "application/json; charset=utf-8" });
  response.end(JSON.stringify(body));
};

/** GitHub's side of OAuth and the two operations of its API, as its documentation has them. */
export const startFakeGithub = async (): Promise<FakeGithub> => {
  const people = new Map<string, GithubPerson>();
  const trouble: FakeGithub["trouble"] = {};
  const client = { clientId: "Iv1.laurel", clientSecret: "github-secret" };
  const grants = new Map<string, Grant>();
  const tokens = new Map<string, string>();

  const authorize: Handler = (request, response, { searchParams }) => {
    const back = new URL(searchParams.get("redirect_uri") ?? "");
    back.searchParams.set("state", searchParams.get("state") ?? "");
    const login = String(request.headers[PERSON_HEADER] ?? "");
    if (people.has(login)) {
      const code = randomUUID().replaceAll("-", "").slice(0, 20);
      const challenge = searchParams.get("code_challenge") ?? "";
      grants.set(code, { login, challenge, redirectUri: searchParams.get("redirect_uri") ?? "" });
      back.searchParams.set("code", code);
    } else {
      back.searchParams.set("error", "access_denied");
      back.searchParams.set("error_description", "The user has denied your application access.");
    }
    response.writeHead(302, { Location: back.href }).end();
  };

  const judge = (form: URLSearchParams): Record<string, string> => {
    const grant = grants.get(form.get("code") ?? "");
    grants.delete(form.get("code") ?? "");
    if (form.get("client_id") !== client.clientId || form.get("client_secret") !== client.clientSecret)
      return refuse(
        "incorrect_client_credentials",
        "The client_id and/or client_secret passed are incorrect.",
      );
    const verifier = form.get("code_verifier") ?? "";
    const isProved = grant?.challenge === createHash("sha256").update(verifier).digest("base64url");
    if (!grant || !isProved)
      return refuse("bad_verification_code", "The code passed is incorrect or expired.");
    if (form.get("redirect_uri") !== grant.redirectUri)
      return refuse("redirect_uri_mismatch", "The redirect_uri MUST match the registered callback URL.");
    const token = `gho_${randomUUID()}`;
    tokens.set(token, grant.login);
    return { access_token: token, scope: "read:user,user:email", token_type: "bearer" };
  };

  const exchange: Handler = async (request, response) => {
    const answer = judge(new URLSearchParams(await text(request)));
    if (request.headers.accept?.includes("application/json")) {
      json(response, 200, answer);
      return;
    }
    response.writeHead(200, { "Content-Type": "application/x-www-form-urlencoded; charset=utf-8" });
    response.end(new URLSearchParams(answer).toString());
  };

  const api =
    (read: (person: GithubPerson, login: string) => unknown): Handler =>
    (request, response) => {
      if (trouble.api) {
        response.writeHead(trouble.api.status, { "Content-Type": "application/json" }).end(trouble.api.body);
        return;
      }
      const login = tokens.get(request.headers.authorization?.replace(/^Bearer /, "") ?? "");
      const person = people.get(login ?? "");
      if (!request.headers["user-agent"]) json(response, 403, { message: "Request forbidden" });
      else if (login === undefined || !person) json(response, 401, { message: "Bad credentials" });
      else json(response, 200, read(person, login));
    };

  const handlers: Record<string, Handler> = {
    "GET /login/oauth/authorize": authorize,
    "POST /login/oauth/access_token": exchange,
    "GET /api/v3/user": api(({ id, name, email }, login) => ({ login, id, name, email, type: "User" })),
    "GET /api/v3/user/emails": api(({ emails }) => emails),
  };
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "", "http://127.0.0.1");
    const handler = handlers[`${request.method} ${url.pathname}`];
    if (handler) void handler(request, response, url);
    else json(response, 404, { message: "Not Found" });
  });
  const { url, close } = await listen(server);
  return { ...client, url, apiUrl: `${url}/api/v3`, people, trouble, close };
};

/** A server on which people sign in with GitHub, for the tests of one `describe`. */
export const githubServer = () => {
  const api = madeOnce(startApp);
  const github = madeOnce(startFakeGithub);
  const server = madeOnce(() => startOAuthServer(api, async () => ({ google: undefined, github })));
  after(async () => {
    await server.close();
    await github.close();
  });
  /** Makes an account at GitHub, with one address, which is proved. */
  const addPerson = (login: string, email: string): void => {
    const emails = [{ email, primary: true, verified: true, visibility: null }];
    github.people.set(login, { id: randomInt(2 ** 40), name: "Ada Byron", email: null, emails });
  };
  return { api, github, server, addPerson };
};
