import type { operations } from "../generated/api.d.ts";
import { OPERATIONS } from "../generated/operations.ts";

/** Every operation of the API has a name, under which it is called, drawn as a form and allowed to a role. */
export type Id = keyof typeof OPERATIONS;

type Json<T> = T extends { content: { "application/json": infer J } } ? J : undefined;
type Success<R> = R extends { 200: infer A } ? A : R extends { 201: infer B } ? B : undefined;
type Parameters<I extends Id, K extends string> = operations[I] extends {
  parameters: { [key in K]?: infer P };
}
  ? P
  : undefined;

/** What an operation answers when all is well. */
export type Answer<I extends Id> = Json<Success<operations[I]["responses"]>>;
/** A row of a list. */
export type Row<I extends Id> = Answer<I> extends { data: (infer T)[] } ? T : never;
export type Body<I extends Id> = operations[I] extends { requestBody?: infer B }
  ? Json<NonNullable<B>>
  : never;

export type Given<I extends Id> = {
  path?: Parameters<I, "path">;
  query?: Parameters<I, "query">;
  body?: Body<I>;
  /** Another project than the one that is open. */
  project?: string;
  signal?: AbortSignal;
};

export type Detail = { field: string; message: string };

/** What the API says of a request that it refuses. */
export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
  readonly reason: string;
  readonly details: Detail[];
  readonly requestId: string;
  readonly challenge: { token: string; methods: string[] } | undefined;
  readonly retryAfter: number | undefined;
  constructor(status: number, error: Record<string, any>, retryAfter?: number) {
    super(error.message ?? `The server answered ${status}`);
    this.status = status;
    this.code = error.code ?? "UNKNOWN";
    this.reason = error.reason ?? "";
    this.details = error.details ?? [];
    this.requestId = error.requestId ?? "";
    this.challenge = error.challenge;
    this.retryAfter = retryAfter;
  }
}

/** Who is signed in; the access token is nowhere but here, the refresh token in a cookie that no script reads. */
type Credentials = { token: string | undefined; project: string | undefined };
export const credentials: Credentials = { token: undefined, project: undefined };

let renew: () => Promise<boolean> = async () => false;
/** Sets what gets a new access token when the server refuses the old one; false: nobody is signed in any more. */
export const onExpired = (how: () => Promise<boolean>): void => void (renew = how);

let prove: () => Promise<boolean> = async () => false;
/** Sets what asks for the second factor again, for what matters most; false: it was not given. */
export const onProofNeeded = (how: () => Promise<boolean>): void => void (prove = how);

/** The address of an operation, with its values filled in. */
const addressOf = (id: Id, path: object = {}, query: object = {}): { method: string; url: string } => {
  const [method = "GET", template = ""] = OPERATIONS[id].split(" ");
  const values = path as Record<string, string>;
  const filled = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(values[name]!));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || value === "") continue;
    // Several externalUserId are repeated; other lists are one text with commas.
    if (Array.isArray(value) && name === "externalUserId")
      for (const one of value) search.append(name, String(one));
    else search.set(name, String(value));
  }
  return { method, url: `/api/v1${filled}${search.size > 0 ? `?${search.toString()}` : ""}` };
};

const request = async (id: Id, given: Given<any>): Promise<Response> => {
  const { method, url } = addressOf(id, given.path as object, given.query as object);
  const headers: Record<string, string> = { Accept: "application/json" };
  if (credentials.token) headers["Authorization"] = `Bearer ${credentials.token}`;
  const project = given.project ?? credentials.project;
  if (project) headers["X-Project-ID"] = project;
  const init: RequestInit = { method, headers, signal: given.signal ?? null };
  if (method !== "GET") {
    // The session's cookie is read and set for this header alone, which no page of another origin may send.
    headers["X-Session"] = "cookie";
    headers["Content-Type"] = "application/json";
    // An operation that takes no body refuses one.
    if (given.body !== undefined || method !== "DELETE") init.body = JSON.stringify(given.body ?? {});
    else delete headers["Content-Type"];
  }
  return await fetch(url, init).catch((error: unknown) => {
    if (given.signal?.aborted) throw error;
    throw new Error("The server cannot be reached");
  });
};

const readError = async (response: Response): Promise<ApiError> => {
  const body = (await response.json().catch(() => ({}))) as { error?: Record<string, any> };
  const after = Number(response.headers.get("Retry-After"));
  const waits = Number.isFinite(after) && after > 0 ? after : undefined;
  return new ApiError(response.status, body.error ?? {}, waits);
};

/** Sends a request of a signed-in person: once more with a new token if the old one is over. */
const send = async (id: Id, given: Given<any>): Promise<Response> => {
  let response = await request(id, given);
  if (response.status === 401 && credentials.token) {
    const error = await readError(response);
    if (!/TOKEN|SESSION/.test(error.reason) || !(await renew())) throw error;
    response = await request(id, given);
  }
  if (response.ok) return response;
  const error = await readError(response);
  if (error.reason !== "REAUTHENTICATION_REQUIRED" || !(await prove())) throw error;
  response = await request(id, given);
  if (!response.ok) throw await readError(response);
  return response;
};

/** Calls an operation. @throws ApiError */
export const call = async <I extends Id>(id: I, given: Given<I> = {}): Promise<Answer<I>> => {
  const response = await send(id, given);
  const text = await response.text();
  return (text === "" ? undefined : JSON.parse(text)) as Answer<I>;
};

/** Calls an operation whose name is known only when the page runs. @throws ApiError */
export const callAny = call as (
  id: Id,
  given?: { path?: object; query?: object; body?: unknown },
) => Promise<any>;

/** The name of what one does with a kind of thing: publish, quest → publishQuest. */
export const operation = (verb: string, noun: string): Id =>
  `${verb}${noun.charAt(0).toUpperCase()}${noun.slice(1)}` as Id;

/** Saves what an operation answers as a file. @throws ApiError */
export const download = async (id: Id, name: string, given: Given<any> = {}): Promise<void> =>
  saveFile(name, await (await send(id, given)).blob());

export const saveFile = (name: string, content: Blob): void => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
};

/** Asks this device for a passkey; returns what proves it. */
export const provePasskey = async (): Promise<unknown> => {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(await callAny("startPasskeyLogin"));
  return ((await navigator.credentials.get({ publicKey })) as PublicKeyCredential).toJSON();
};

/** Makes a passkey on this device, by what the server has sent. */
export const makePasskey = async (options: PublicKeyCredentialCreationOptionsJSON): Promise<any> => {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options);
  return ((await navigator.credentials.create({ publicKey })) as PublicKeyCredential).toJSON();
};
