import {
  Alert,
  Anchor,
  Button,
  Center,
  Divider,
  Group,
  Paper,
  PasswordInput,
  PinInput,
  Stack,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { type ReactNode, useEffect, useState } from "react";
import { Link, useLocation, useSearch } from "wouter";
import { ApiError, call, callAny } from "../api/client.ts";
import { useApi } from "../api/hooks.ts";
import { passkeyAnswer } from "../api/passkeys.ts";
import { readAccount, signIn, signOut, useAccount } from "../api/session.ts";
import { words } from "../format.ts";
import { ErrorNote, Loaded } from "../ui/page.tsx";
import { useSending } from "../ui/sending.ts";

/** One card in the middle, as every page of somebody who is not signed in. */
const Card = ({ title, children }: { title: string; children: ReactNode }) => {
  useEffect(() => {
    document.title = `${title} · Laurel`;
  }, [title]);
  return (
    <Center mih="100vh" p="md" component="main">
      <Paper withBorder p="xl" w={400}>
        <Stack>
          <Group gap="xs">
            <img src="/console/icon.svg" alt="" width={28} height={28} />
            <Text fw={700}>Laurel</Text>
          </Group>
          <Title order={1} size="h3">
            {title}
          </Title>
          {children}
        </Stack>
      </Paper>
    </Center>
  );
};

const To = ({ to, children }: { to: string; children: ReactNode }) => (
  <Anchor component={Link} href={to} size="sm">
    {children}
  </Anchor>
);

/** Browsers keep a secure cookie on plain http for this machine alone. */
const isPlain = () =>
  location.protocol === "http:" &&
  !/^(localhost|127\.0\.0\.1|\[::1\]|.*\.localhost)$/.test(location.hostname);

const PlainNote = () =>
  isPlain() ? (
    <Alert color="yellow" title="This address is not encrypted">
      Passwords travel in the clear here, and a reload may sign you out. Put a proxy with HTTPS in front of
      the server.
    </Alert>
  ) : null;

export const SignIn = ({ why }: { why?: string }) => {
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [challenge, setChallenge] = useState<ApiError["challenge"]>();
  const { error, isBusy, send } = useSending();
  if (challenge) return <SecondFactor challenge={challenge} onBack={() => setChallenge(undefined)} />;
  const logIn = async () => {
    try {
      await signIn(await call("login", { body: { email, password } }));
    } catch (failure) {
      if (failure instanceof ApiError && failure.challenge) return setChallenge(failure.challenge);
      throw failure;
    }
  };
  return (
    <Card title="Sign in">
      {why && <Alert color="yellow">{why}</Alert>}
      <PlainNote />
      <form onSubmit={send(logIn)}>
        <Stack gap="sm">
          <TextInput
            label="Email"
            type="email"
            autoComplete="username webauthn"
            value={email}
            onChange={(event) => setEmail(event.currentTarget.value)}
            required
            autoFocus
          />
          <PasswordInput
            label="Password"
            autoComplete="current-password"
            value={password}
            onChange={(event) => setPassword(event.currentTarget.value)}
            required
          />
          {error !== undefined && <ErrorNote error={error} />}
          <Button type="submit" loading={isBusy} fullWidth>
            Sign in
          </Button>
        </Stack>
      </form>
      <Group justify="space-between">
        <To to="/forgot-password">Forgot your password?</To>
        <To to="/register">Create an account</To>
      </Group>
      <OtherWays email={email} />
    </Card>
  );
};

const enter = (provider: string, flow: "login" | "signup") => {
  const query = new URLSearchParams({
    flow,
    response_mode: "code",
    redirect_uri: `${location.origin}/console/oauth`,
  });
  location.assign(`/api/v1/auth/oauth/${provider}?${query.toString()}`);
};

const OtherWays = ({ email, flow = "login" }: { email: string; flow?: "login" | "signup" }) => {
  const { data } = useApi("listOAuthProviders");
  const { error, isBusy, send } = useSending();
  const enabled = data?.providers.filter((one) => one.enabled) ?? [];
  const company = async () => {
    const { authUrl } = await call("discoverSso", { body: { email } });
    if (!authUrl) throw new Error("There is no single sign-on for this address");
    const url = new URL(authUrl, location.origin);
    url.searchParams.set("response_mode", "code");
    url.searchParams.set("redirect_uri", `${location.origin}/console/oauth`);
    location.assign(url.href);
  };
  const passkey = async () => {
    const options = await callAny("startPasskeyLogin");
    await signIn(await callAny("loginWithPasskey", { body: { credential: await passkeyAnswer(options) } }));
  };
  return (
    <>
      <Divider label="or" />
      <Stack gap="xs">
        {enabled.map(({ id, name }) => (
          <Button key={id} variant="default" onClick={() => enter(id, flow)}>
            {`Go on with ${name}`}
          </Button>
        ))}
        {flow === "login" && (
          <>
            <Button
              variant="default"
              loading={isBusy}
              disabled={email === ""}
              onClick={() => send(company)()}
            >
              Single sign-on of your company
            </Button>
            {"PublicKeyCredential" in window && (
              <Button variant="default" onClick={() => send(passkey)()}>
                Sign in with a passkey
              </Button>
            )}
          </>
        )}
        {error !== undefined && <ErrorNote error={error} />}
      </Stack>
    </>
  );
};

type FactorProps = {
  challenge: NonNullable<ApiError["challenge"]>;
  onBack: () => void;
  /** Default: that of a team's member. */
  complete?: (answer: object) => Promise<void>;
  onDone?: () => void;
};

export const SecondFactor = ({ challenge, onBack, complete = completeLogin, onDone }: FactorProps) => {
  const [code, setCode] = useState("");
  const [isRecovery, setRecovery] = useState(false);
  const { error, isBusy, send } = useSending();
  const finish = (given: string) =>
    send(async () => {
      await complete({ challengeToken: challenge.token, code: given.trim() });
      onDone?.();
    });
  const byPasskey = async () => {
    const options = await callAny("startPasskeyLogin");
    await complete({ challengeToken: challenge.token, passkey: await passkeyAnswer(options) });
    onDone?.();
  };
  return (
    <Card title="Second factor">
      <form onSubmit={finish(code)}>
        <Stack>
          {isRecovery ? (
            <TextInput
              label="Recovery code"
              value={code}
              onChange={(event) => setCode(event.currentTarget.value)}
              autoFocus
            />
          ) : (
            <>
              <Text size="sm">The six digits that your app shows</Text>
              <PinInput
                length={6}
                type="number"
                value={code}
                onChange={setCode}
                onComplete={(given) => finish(given)()}
                oneTimeCode
                autoFocus
                aria-label="Code"
              />
            </>
          )}
          {error !== undefined && <ErrorNote error={error} />}
          <Button type="submit" loading={isBusy}>
            Go on
          </Button>
          {challenge.methods.includes("PASSKEY") && (
            <Button variant="default" onClick={() => send(byPasskey)()}>
              Use a passkey
            </Button>
          )}
          <Group justify="space-between">
            <Anchor component="button" type="button" size="sm" onClick={() => setRecovery(!isRecovery)}>
              {isRecovery ? "Use the app" : "Use a recovery code"}
            </Anchor>
            <Anchor component="button" type="button" size="sm" onClick={onBack}>
              Back
            </Anchor>
          </Group>
        </Stack>
      </form>
    </Card>
  );
};

const completeLogin = async (answer: object) => signIn(await callAny("completeLogin", { body: answer }));

export const Register = () => {
  const [given, setGiven] = useState({ name: "", email: "", password: "", tenantName: "" });
  const { error, isBusy, send } = useSending();
  const [, go] = useLocation();
  const captcha = useApi("getCaptcha");
  const set = (name: keyof typeof given) => (event: React.ChangeEvent<HTMLInputElement>) =>
    setGiven({ ...given, [name]: event.currentTarget.value });
  const register = async () => {
    await signIn(await call("register", { body: given }));
    go("/");
  };
  return (
    <Card title="Create an account">
      <PlainNote />
      {captcha.data && captcha.data.provider !== "none" && (
        <Alert color="yellow" title={`This server asks for a captcha (${captcha.data.provider})`}>
          The console shows none, as it loads nothing from other hosts: ask an owner of your team for an
          invitation.
        </Alert>
      )}
      <form onSubmit={send(register)}>
        <Stack gap="sm">
          <TextInput
            label="Your name"
            autoComplete="name"
            value={given.name}
            onChange={set("name")}
            required
            autoFocus
          />
          <TextInput
            label="Studio or company"
            autoComplete="organization"
            value={given.tenantName}
            onChange={set("tenantName")}
            required
          />
          <TextInput
            label="Email"
            type="email"
            autoComplete="username"
            value={given.email}
            onChange={set("email")}
            required
          />
          <PasswordInput
            label="Password"
            autoComplete="new-password"
            value={given.password}
            onChange={set("password")}
            required
          />
          {error !== undefined && <ErrorNote error={error} />}
          <Button type="submit" loading={isBusy}>
            Create the account
          </Button>
        </Stack>
      </form>
      <To to="/login">You have an account? Sign in</To>
      <OtherWays email={given.email} flow="signup" />
    </Card>
  );
};

export const Forgot = () => {
  const [email, setEmail] = useState("");
  const [isSent, setSent] = useState(false);
  const { error, isBusy, send } = useSending();
  return (
    <Card title="Set a new password">
      {isSent ? (
        <Alert color="teal">If there is an account of this address, a mail with a link is on its way.</Alert>
      ) : (
        <form
          onSubmit={send(async () => {
            await call("forgotPassword", { body: { email } });
            setSent(true);
          })}
        >
          <Stack gap="sm">
            <TextInput
              label="Email"
              type="email"
              value={email}
              onChange={(event) => setEmail(event.currentTarget.value)}
              required
              autoFocus
            />
            {error !== undefined && <ErrorNote error={error} />}
            <Button type="submit" loading={isBusy}>
              Send me a link
            </Button>
          </Stack>
        </form>
      )}
      <To to="/login">Back to signing in</To>
    </Card>
  );
};

const useToken = (): string => new URLSearchParams(useSearch()).get("token") ?? "";

export const Reset = () => {
  const token = useToken();
  const [password, setPassword] = useState("");
  const [isDone, setDone] = useState(false);
  const { error, isBusy, send } = useSending();
  return (
    <Card title="Choose a new password">
      {isDone ? (
        <>
          <Alert color="teal">Your password is set.</Alert>
          <To to="/login">Sign in</To>
        </>
      ) : (
        <form
          onSubmit={send(async () => {
            await call("resetPassword", { body: { token, password } });
            setDone(true);
          })}
        >
          <Stack gap="sm">
            <PasswordInput
              label="New password"
              autoComplete="new-password"
              value={password}
              onChange={(event) => setPassword(event.currentTarget.value)}
              required
              autoFocus
            />
            {error !== undefined && <ErrorNote error={error} />}
            <Button type="submit" loading={isBusy}>
              Set the password
            </Button>
          </Stack>
        </form>
      )}
    </Card>
  );
};

/** A click, not the opening of the page, proves the address: programs that look into mails open links. */
export const Verify = () => {
  const token = useToken();
  const [isDone, setDone] = useState(false);
  const { error, isBusy, send } = useSending();
  const verify = async () => {
    await call("verifyEmail", { body: { token } });
    setDone(true);
    await readAccount().catch(() => undefined);
  };
  return (
    <Card title="Verify your email address">
      {isDone ? (
        <>
          <Alert color="teal">Your address is verified.</Alert>
          <To to="/">To the console</To>
        </>
      ) : (
        <Button onClick={() => send(verify)()} loading={isBusy}>
          Verify my address
        </Button>
      )}
      {error !== undefined && <ErrorNote error={error} />}
    </Card>
  );
};

export const Accept = () => {
  const token = useToken();
  const invitation = useApi("readInvitation", { query: { token } });
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const { error, isBusy, send } = useSending();
  const [, go] = useLocation();
  const accept = async () => {
    await signIn(await call("acceptInvitation", { body: { token, name, password } }));
    go("/");
  };
  return (
    <Card title="Join the team">
      <Loaded query={invitation} lines={3}>
        {({ email, tenantName, role }) => (
          <>
            <Text size="sm">
              You are invited to <b>{tenantName}</b> as {words(role).toLowerCase()}, with the address {email}.
            </Text>
            <form onSubmit={send(accept)}>
              <Stack gap="sm">
                <TextInput
                  label="Your name"
                  value={name}
                  onChange={(event) => setName(event.currentTarget.value)}
                  required
                  autoFocus
                />
                <PasswordInput
                  label="Password"
                  autoComplete="new-password"
                  value={password}
                  onChange={(event) => setPassword(event.currentTarget.value)}
                  required
                />
                {error !== undefined && <ErrorNote error={error} />}
                <Button type="submit" loading={isBusy}>
                  Join
                </Button>
              </Stack>
            </form>
          </>
        )}
      </Loaded>
    </Card>
  );
};

/** Where a provider's sign-in comes back to, with a code that is good once. */
export const OAuthReturn = () => {
  const query = new URLSearchParams(useSearch());
  const [, go] = useLocation();
  const [error, setError] = useState<unknown>();
  const [challenge, setChallenge] = useState<ApiError["challenge"]>();
  const code = query.get("code");
  const refused = query.get("error_description") ?? query.get("error");
  useEffect(() => {
    if (code === null) return;
    call("exchangeOAuthCode", { body: { code } })
      .then(signIn)
      .then(() => go("/", { replace: true }))
      .catch((failure: unknown) => {
        if (failure instanceof ApiError && failure.challenge) setChallenge(failure.challenge);
        else setError(failure);
      });
  }, [code]);
  const token = query.get("challenge_token");
  const owed = challenge ?? (token === null ? undefined : { token, methods: ["TOTP", "PASSKEY"] });
  if (owed)
    return (
      <SecondFactor challenge={owed} onBack={() => go("/login")} onDone={() => go("/", { replace: true })} />
    );
  return (
    <Card title="Signing in">
      {refused !== null && code === null ? <Alert color="red">{refused}</Alert> : null}
      {error !== undefined && <ErrorNote error={error} />}
      <To to="/login">Back to signing in</To>
    </Card>
  );
};

export const CompleteProfile = () => {
  const { user } = useAccount();
  const [name, setName] = useState(user.name);
  const [tenantName, setTenantName] = useState("");
  const { error, isBusy, send } = useSending();
  const complete = async () => {
    await call("completeProfile", {
      body: user.role === "OWNER" && tenantName ? { name, tenantName } : { name },
    });
    await readAccount();
  };
  return (
    <Card title="Almost there">
      <form onSubmit={send(complete)}>
        <Stack gap="sm">
          <TextInput
            label="Your name"
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            required
            autoFocus
          />
          {user.role === "OWNER" && (
            <TextInput
              label="Studio or company"
              value={tenantName}
              onChange={(event) => setTenantName(event.currentTarget.value)}
            />
          )}
          {error !== undefined && <ErrorNote error={error} />}
          <Button type="submit" loading={isBusy}>
            Go on
          </Button>
          <Button variant="subtle" onClick={() => void signOut()}>
            Sign out
          </Button>
        </Stack>
      </form>
    </Card>
  );
};
