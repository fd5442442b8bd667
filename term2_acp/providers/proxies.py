"""Which proxy of the environment a request goes through; never for this machine itself."""

from __future__ import annotations

import ipaddress
import urllib.request


def proxy_for(scheme: str, host: str) -> str | None:
    """
    The URL of the proxy that HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY ask for.

    A loopback host is always reached directly, whatever the environment says.
    """
    if is_loopback(host):
        return None
    proxies = urllib.request.getproxies_environment()
    if not proxies or urllib.request.proxy_bypass(host):
        return None
    proxy = proxies.get(scheme) or proxies.get("all")
    if proxy and "://" not in proxy:
        return f"http://{proxy}"
    return proxy or None


def is_loopback(host: str) -> bool:
    """Whether a host name or address (without brackets) is this machine's own."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
