import type { Answer, RequestOptions, TestApp } from "./app.ts";

/** A client of a server in another process; its answers are not held against the API's description. */
export const remote = (url: string): TestApp => {
  const request = async (method: string, path: string, options: RequestOptions = {}): Promise<Answer> => {
    const { key, token, body } = options;
    const response = await fetch(url + path, {
      method,
      headers: {
        ...(key === undefined ? {} : { "X-API-Key": key }),
        ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...options.headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: await response.json(), headers: response.headers };
  };
  return {
    get app(): never {
      throw new Error("the server is another process");
    },
    url,
    port: Number(new URL(url).port),
    request,
    get: (path, options) => request("GET", path, options),
    post: (path, body, options) => request("POST", path, { ...options, body }),
    patch: (path, body, options) => request("PATCH", path, { ...options, body }),
    delete: (path, options) => request("DELETE", path, options),
    stop: () => Promise.resolve(),
  };
};
