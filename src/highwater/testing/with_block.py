"""Something that runs for the length of a `with` block and leaves nothing behind."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class WithBlock(ABC):
    """Starts on the way in, is removed on the way out, also when it could not start."""

    @abstractmethod
    def start(self) -> Self:
        """Start, and return once it is ready."""

    @abstractmethod
    def remove(self) -> None:
        """End, whatever state it is in, and remove what it wrote."""

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()
