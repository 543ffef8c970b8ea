import { Alert, Button, PasswordInput, Stack, Text, TextInput } from "@mantine/core";
import { useState } from "react";
import { useLocation, useSearch } from "wouter";
import { call } from "../api/client.ts";
import { useApi } from "../api/hooks.ts";
import { readAccount, signIn, signOut, useAccount } from "../api/session.ts";
import { words } from "../format.ts";
import { ErrorNote, Loaded } from "../ui/page.tsx";
import { useSending } from "../ui/sending.ts";
import { Card, To, PlainNote, OtherWays } from "./auth.tsx";

const NEW_PASSWORD = {
  autoComplete: "new-password",
  description: "At least 8 characters, with an uppercase letter, a lowercase letter and a number",
  required: true,
};

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
            {...NEW_PASSWORD}
            value={given.password}
            onChange={set("password")}
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
              {...NEW_PASSWORD}
              value={password}
              onChange={(event) => setPassword(event.currentTarget.value)}
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
                  {...NEW_PASSWORD}
                  value={password}
                  onChange={(event) => setPassword(event.currentTarget.value)}
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
