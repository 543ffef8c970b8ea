import { notifications } from "@mantine/notifications";
import {
  keepPreviousData,
  QueryClient,
  type QueryKey,
  useQuery,
  type UseQueryResult,
  useSuspenseQuery,
} from "@tanstack/react-query";
import { createContext, useContext, useDeferredValue, useSyncExternalStore } from "react";
import { useLocation } from "wouter";
import { type Answer, ApiError, call, credentials, type Given, type Id, onExpired } from "./client.ts";

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      retry: (count, error) => count < 2 && !(error instanceof ApiError && error.status < 500),
    },
  },
});

const keyOf = (id: Id, given: object): QueryKey => [id, credentials.project ?? "", given];

type Watching = { enabled?: boolean; refetchInterval?: number | false };

/** Reads an operation's answer, and again when something here changes it. */
export const useApi = <I extends Id>(id: I, given: Given<I> = {}, watching: Watching = {}) =>
  useQuery<Answer<I>, ApiError>({
    queryKey: keyOf(id, given),
    queryFn: ({ signal }) => call(id, { ...given, signal }),
    placeholderData: keepPreviousData as never,
    ...watching,
  });

/** Names of members, by what the API calls who did something. */
export const useActors = (): ReadonlyMap<unknown, string> => {
  const { data } = useApi("listMembers", { query: { limit: 100 } });
  return new Map(data?.data.map(({ userId, name }) => [`user:${userId}`, name]));
};

type Loose = { path?: object; query?: object; body?: unknown };

/** The same for an operation whose name is known only when the page runs. */
export const useAny = useApi as (id: Id, given?: Loose, watching?: Watching) => UseQueryResult<any, ApiError>;

/**
 * An operation's answer: what calls this waits until it is there, and what the server refuses is thrown to the part
 * of the screen around it. When something else is asked for, the answer before stands until the new one is there.
 */
export const useRead = <I extends Id>(
  id: I,
  given: Given<I> = {},
  refetchInterval: number | false = false,
) => {
  const asked: Given<I> = JSON.parse(useDeferredValue(JSON.stringify(given)));
  const { data } = useSuspenseQuery<Answer<I>, ApiError>({
    queryKey: keyOf(id, asked),
    queryFn: ({ signal }) => call(id, { ...asked, signal }),
    refetchInterval,
  });
  return data as NonNullable<Answer<I>>;
};

export const tellError = (error: unknown): void => {
  const requestId = error instanceof ApiError && error.requestId;
  notifications.show({
    color: "red",
    title: error instanceof Error ? error.message : String(error),
    message: requestId ? `Request ${requestId}` : "",
    autoClose: 8_000,
  });
};

export const tell = (title: string): void => {
  notifications.show({ color: "teal", title, message: "", autoClose: 3_000 });
};

/** Calls an operation that changes something; everything on the screen is read anew afterwards. @throws ApiError */
export const change = async <I extends Id>(id: I, given: Given<I> = {}, done = ""): Promise<Answer<I>> => {
  const answer = await call(id, given);
  void queryClient.invalidateQueries();
  if (done !== "") tell(done);
  return answer;
};

export type Account = Answer<"getAccount">;
/** A super-admin belongs to no tenant and signs in anew after a reload: the platform keeps no cookie of them. */
export type Admin = Answer<"getSuperadmin">;

type Session =
  | { status: "loading" }
  | { status: "out"; why?: string }
  | { status: "in"; account: Account }
  | { status: "admin"; admin: Admin };

let session: Session = { status: "loading" };
const listeners = new Set<() => void>();

const set = (next: Session): void => {
  session = next;
  for (const listener of listeners) listener();
};

export const useSession = (): Session =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => session,
  );

/** The account of whoever is signed in; only screens behind the sign-in ask. */
export const useAccount = (): Account => {
  const now = useSession();
  if (now.status !== "in") throw new Error("Nobody is signed in");
  return now.account;
};

/** Says whether the signed-in person may call an operation. */
export const useCan = (): ((id: Id) => boolean) => {
  const now = useSession();
  if (now.status === "admin") return () => true;
  const allowed = now.status === "in" ? new Set(now.account.permissions) : new Set<string>();
  return (id) => allowed.has(id);
};

/** Whether the server has decided; else it may do so when it is asked again. */
const isRefusal = (error: unknown): boolean =>
  error instanceof ApiError && error.status < 500 && error.status !== 429;

let renewing: Promise<boolean> | undefined;

/** Gets an access token for the session's cookie; one request however many ask. */
const renew = (): Promise<boolean> => {
  if (session.status === "admin") {
    signedOut("Your session as a super-admin has ended");
    return Promise.resolve(false);
  }
  renewing ??= call("refreshSession", { body: {} as never })
    .then(({ accessToken, user }) => {
      if (session.status === "in" && session.account.user.id !== user.id) {
        // Another tab has signed somebody else in: what this one shows is not theirs.
        forget();
        location.reload();
        return false;
      }
      credentials.token = accessToken;
      return true;
    })
    .catch((error: unknown) => {
      if (isRefusal(error)) signedOut(session.status === "in" ? "Your session has ended" : undefined);
      return false;
    })
    .finally(() => (renewing = undefined));
  return renewing;
};

onExpired(() => {
  credentials.token = undefined;
  return renew();
});

/** What is typed into long forms and not saved yet, by the name of each, with what is sent beside it. */
export const unsaved = new Map<string, { value?: any; text?: string; begun?: any; fixed?: object }>();
addEventListener("beforeunload", (event) => unsaved.size > 0 && event.preventDefault());

/** Nothing of one person is left for the next who signs in to the same tab. */
const forget = (): void => {
  credentials.token = undefined;
  credentials.project = undefined;
  queryClient.clear();
  unsaved.clear();
};

const signedOut = (why?: string): void => {
  if (session.status !== "admin") localStorage.removeItem(REMEMBERED);
  forget();
  set(why === undefined ? { status: "out" } : { status: "out", why });
};

export const readAccount = async (): Promise<void> =>
  set({ status: "in", account: await call("getAccount") });

/** Says that there may be a cookie to go on with; scripts cannot see the cookie itself. */
const REMEMBERED = "laurel-signed-in";

/** Takes what a sign-in has answered. */
export const signIn = async ({ accessToken }: { accessToken: string }): Promise<void> => {
  forget();
  credentials.token = accessToken;
  localStorage.setItem(REMEMBERED, "yes");
  await readAccount();
};

export const signInAdmin = async ({ accessToken }: { accessToken: string }): Promise<void> => {
  forget();
  credentials.token = accessToken;
  set({ status: "admin", admin: await call("getSuperadmin") });
};

export const signOut = async (): Promise<void> => {
  const isAdmin = session.status === "admin";
  try {
    await call(isAdmin ? "superadminLogout" : "logout", { body: {} as never });
  } catch (error) {
    // A member goes on by a cookie, which the server alone can take away.
    if (!isAdmin && !isRefusal(error))
      return tellError(new Error("You are still signed in here: the server cannot be reached. Try again"));
  }
  signedOut();
  // Whoever has signed in here as a member goes on.
  if (isAdmin) location.reload();
};

/** Goes on with the session of the cookie, if there is one. */
export const resume = async (): Promise<void> => {
  if (localStorage.getItem(REMEMBERED) === null || !(await renew())) {
    if (session.status === "loading") set({ status: "out" });
    return;
  }
  await readAccount().catch(() => signedOut());
};

export type Project = Answer<"getProject">;
export const ProjectContext = createContext<Project | undefined>(undefined);

/** The project that is open. */
export const useProject = (): Project => {
  const project = useContext(ProjectContext);
  if (!project) throw new Error("No project is open");
  return project;
};

/** Builds addresses of screens of the open project; without one, of the console. */
export const useTo = (): ((path: string) => string) => {
  const project = useContext(ProjectContext);
  return (path) => (project ? `/p/${project.id}${path}` : path);
};

/** Goes to a screen of the open project. */
export const useGo = (): ((path: string) => void) => {
  const to = useTo();
  const [, go] = useLocation();
  return (path) => go(to(path));
};
