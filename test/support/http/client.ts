/** What a request carries besides its path. */
export type RequestOptions = {
  key?: string;
  token?: string;
  /** Sent as JSON; a string is sent as it is. */
  body?: unknown;
  headers?: Record<string, string>;
  /** A malformed request whose answer the API's description does not cover. */
  isUnchecked?: boolean;
};
// oxlint-disable-next-line typescript/no-explicit-any -- tests read bodies of every shape
export type Answer = { status: number; body: any; headers: Headers };

export type Client = {
  url: string;
  port: number;
  request(method: string, path: string, options?: RequestOptions): Promise<Answer>;
  get(path: string, options?: RequestOptions): Promise<Answer>;
  post(path: string, body: unknown, options?: RequestOptions): Promise<Answer>;
  put(path: string, body: unknown, options?: RequestOptions): Promise<Answer>;
  patch(path: string, body: unknown, options?: RequestOptions): Promise<Answer>;
  delete(path: string, options?: RequestOptions): Promise<Answer>;
};

type Check = (method: string, path: string, status: number, body: unknown) => void;

const watchers = new Set<Check>();

/** Shows `watch` every answer that a client of this process gets. */
export const watchAnswers = (watch: Check): void => void watchers.add(watch);

const show = (seeing: Iterable<Check>, ...answer: Parameters<Check>): void => {
  for (const see of seeing) see(...answer);
};

/** After this long without an answer a test is told which request hangs, in ms. */
export const ANSWER_LIMIT_MS = 60_000;

/** Limits by address must not make tests depend on one another: every request has an address of its own. */
export const anAddress = (): string => {
  const part = () => Math.floor(Math.random() * 256);
  return `10.${part()}.${part()}.${part()}`;
};

/** What a body says: files of other types than JSON are their text. */
const bodyOf = ({ headers }: Response, text: string): unknown => {
  if (text === "") return undefined;
  const isFile = headers.get("content-type")?.startsWith("application/json") === false;
  return isFile ? text : (JSON.parse(text) as unknown);
};

/** A client of the server at `url`; `check` sees every answer. */
export const clientOf = (url: string, check: Check = () => undefined): Client => {
  const request = async (method: string, path: string, options: RequestOptions = {}): Promise<Answer> => {
    const { key, token, body, isUnchecked = false } = options;
    const response = await fetch(url + path, {
      method,
      redirect: "manual",
      signal: AbortSignal.timeout(ANSWER_LIMIT_MS),
      headers: {
        "X-Forwarded-For": anAddress(),
        ...(key === undefined ? {} : { "X-API-Key": key }),
        ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...options.headers,
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const answer = bodyOf(response, text);
    show(isUnchecked ? watchers : [check, ...watchers], method, path, response.status, answer);
    return { status: response.status, body: answer, headers: response.headers };
  };
  return {
    url,
    port: Number(new URL(url).port),
    request,
    get: (path, options) => request("GET", path, options),
    post: (path, body, options) => request("POST", path, { ...options, body }),
    put: (path, body, options) => request("PUT", path, { ...options, body }),
    patch: (path, body, options) => request("PATCH", path, { ...options, body }),
    delete: (path, options) => request("DELETE", path, options),
  };
};

/** The body of an answer that has the status it must have. */
export const must = (answer: Answer, status: number): Answer["body"] => {
  if (answer.status === status) return answer.body;
  throw new Error(`expected ${status}, got ${answer.status}: ${JSON.stringify(answer.body)}`);
};
