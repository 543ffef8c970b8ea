import { notifications } from "@mantine/notifications";
import {
  keepPreviousData,
  type QueryKey,
  QueryClient,
  useMutation,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import { type Answer, ApiError, call, callAny, credentials, type Given, type Id } from "./client.ts";

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

/** The same for an operation whose name is known only when the page runs. */
export const useAny = (id: Id, given: { path?: object; query?: object } = {}, watching: Watching = {}) =>
  useQuery<any, ApiError>({
    queryKey: keyOf(id, given),
    queryFn: () => callAny(id, given),
    placeholderData: keepPreviousData as never,
    ...watching,
  });

export const tellError = (error: unknown): void => {
  const { message, requestId } =
    error instanceof ApiError ? error : { message: String(error), requestId: "" };
  notifications.show({
    color: "red",
    title: message,
    message: requestId === "" ? "" : `Request ${requestId}`,
    autoClose: 8_000,
  });
};

export const tell = (title: string): void => {
  notifications.show({ color: "teal", title, message: "", autoClose: 3_000 });
};

type Acting<I extends Id> = {
  /** Shown when it is done. */
  done?: string | undefined;
  onDone?: ((answer: Answer<I>) => void) | undefined;
};

/** Calls an operation that changes something; everything on the screen is read anew afterwards. */
export const useAct = <I extends Id>(id: I, { done, onDone }: Acting<I> = {}) => {
  const client = useQueryClient();
  return useMutation<Answer<I>, ApiError, Given<I>>({
    mutationFn: (given) => call(id, given),
    onSuccess: (answer) => {
      void client.invalidateQueries();
      if (done) tell(done);
      onDone?.(answer);
    },
    onError: tellError,
  });
};
